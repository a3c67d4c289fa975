"""Columns on their way into BigQuery: types, values and schemas."""
