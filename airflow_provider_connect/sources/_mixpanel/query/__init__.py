"""Definitions and readers of the streams of the Query and App APIs."""
