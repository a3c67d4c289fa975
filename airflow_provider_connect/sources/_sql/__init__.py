"""The workshop of the source of databases."""
