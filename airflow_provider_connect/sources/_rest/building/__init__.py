"""Rows: columns, keys and duplicates of records."""
