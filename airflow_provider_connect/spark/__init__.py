"""The Spark side. It runs under spark-submit and never imports airflow."""
