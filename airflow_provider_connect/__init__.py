"""Kafka Connect for batch-polled sources and sinks: an Airflow 3 provider on Spark.

It imports nothing.
"""

__version__ = "1.0.0rc1"
