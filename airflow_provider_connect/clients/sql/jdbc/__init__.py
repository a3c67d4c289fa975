"""Sessions with other databases over JDBC, and the types that Spark reads exactly."""
