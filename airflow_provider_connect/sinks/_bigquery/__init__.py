"""Implementation of the BigQuery sink."""
