"""Sinks: one file each, named like the connector."""
