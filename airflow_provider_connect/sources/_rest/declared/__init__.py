"""What a user declares of an API, by concept: plain data that a DAG file imports."""
