"""Internal modules of the Delta sink."""
