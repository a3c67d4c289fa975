"""Streams of the Query and App APIs, defined as data."""
