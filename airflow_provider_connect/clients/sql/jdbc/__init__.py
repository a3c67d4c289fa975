"""Any other database, through Spark's own JDBC reader: what it reads exactly, and what is refused."""
