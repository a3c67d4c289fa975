"""PostgreSQL: rows come from COPY."""
