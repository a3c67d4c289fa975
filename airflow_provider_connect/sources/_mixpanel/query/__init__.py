"""Streams of the Query and App APIs: definitions and readers."""
