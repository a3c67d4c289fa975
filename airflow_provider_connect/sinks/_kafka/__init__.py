"""The workshop of the Kafka sink."""
