"""JSON text, JSON Schema, and Connect's envelope."""
