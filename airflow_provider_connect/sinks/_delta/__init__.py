"""The workshop of the Delta sink."""
