"""Implementation of the Kafka sink."""
