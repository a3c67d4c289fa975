"""How a job gets from the Airflow worker to Spark: spark-submit's settings, and the connections of a remote driver."""
