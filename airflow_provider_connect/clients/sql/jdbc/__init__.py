"""Sessions with other databases over JDBC, and the types that Spark's reader reads exactly."""
