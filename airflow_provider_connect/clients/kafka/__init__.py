"""Kafka clusters: connections, producers, readers, and what errors mean."""
