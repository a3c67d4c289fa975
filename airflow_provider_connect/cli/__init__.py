"""``airflow connect …``: what a person looks at, checks and mends without writing Python."""
