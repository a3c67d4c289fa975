"""Parts that pollers are built from."""
