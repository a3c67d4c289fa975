"""Workshop of the Kafka source."""
