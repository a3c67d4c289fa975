"""Converts columns for BigQuery: types, values and schemas."""
