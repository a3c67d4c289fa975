"""Sends a job from the Airflow worker to Spark: settings of spark-submit, and connections for a remote driver."""
