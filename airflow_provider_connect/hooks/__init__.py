"""Airflow hooks of our connection types, and the lookup of connections in a task."""
