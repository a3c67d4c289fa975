"""JSON: text of columns, JSON Schema, and Connect's envelope."""
