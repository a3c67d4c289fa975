"""Sends a job from the Airflow worker to Spark."""
