"""Client for Kafka clusters."""
