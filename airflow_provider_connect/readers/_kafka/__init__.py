"""The Kafka reader's workshop."""
