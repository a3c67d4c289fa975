"""The Spark side: runs under spark-submit, never imports airflow."""
