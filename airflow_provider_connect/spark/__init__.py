"""The Spark side: it runs under spark-submit and never imports airflow."""
