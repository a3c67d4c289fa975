"""Any other database, through Spark's JDBC reader: the types it reads exactly, and errors for the rest."""
