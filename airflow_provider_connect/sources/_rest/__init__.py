"""Internals of the REST source."""
