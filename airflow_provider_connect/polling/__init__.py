"""What polls are built from."""
