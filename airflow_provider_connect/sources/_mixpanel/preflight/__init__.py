"""A look at a connection before the first run."""
