"""Programs that read what a sink has published, for consumers outside of Airflow and Spark."""
