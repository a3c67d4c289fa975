"""Clients of BigQuery's services: credentials, calls, write streams and error classes."""
