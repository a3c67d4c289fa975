"""Converts columns to bytes and back, one column at a time. Knows Arrow, but no sources or sinks."""
