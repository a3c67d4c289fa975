"""Avro schemas and encoding."""
