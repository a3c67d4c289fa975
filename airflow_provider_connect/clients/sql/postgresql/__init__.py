"""PostgreSQL. Rows are read with COPY."""
