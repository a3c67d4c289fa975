"""Kafka Connect for batch-polled sources and sinks: an Airflow 3 provider on Spark.

This file runs on Spark executors too, so it imports nothing.
"""

__version__ = "1.0.0rc1"
