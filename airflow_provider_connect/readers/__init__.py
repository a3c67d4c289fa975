"""Programs that read published days, for consumers outside Airflow and Spark."""
