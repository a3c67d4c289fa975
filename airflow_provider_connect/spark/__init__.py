"""The Spark side: runs under spark-submit and never imports airflow."""
