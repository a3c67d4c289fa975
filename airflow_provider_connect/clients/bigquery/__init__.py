"""Clients of BigQuery's services."""
