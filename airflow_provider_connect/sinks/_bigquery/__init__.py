"""The workshop of the BigQuery sink."""
