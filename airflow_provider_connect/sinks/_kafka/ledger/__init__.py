"""The ledger of Kafka sinks: who has published what, and who is at it."""
