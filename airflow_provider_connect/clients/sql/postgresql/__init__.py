"""PostgreSQL: rows as COPY writes them."""
