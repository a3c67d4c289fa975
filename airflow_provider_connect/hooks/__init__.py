"""Airflow hooks, one a connection type."""
