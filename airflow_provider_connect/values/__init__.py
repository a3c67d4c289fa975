"""Converts columns to bytes and back, one column at a time."""
