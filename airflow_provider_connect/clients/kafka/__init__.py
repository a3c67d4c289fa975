"""Client for Kafka clusters: connections, producers, topic readers and error classes."""
