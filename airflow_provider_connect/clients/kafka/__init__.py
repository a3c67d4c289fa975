"""Client for Kafka clusters.

Calls raise RetriableError if the broker does not answer, and ConfigError for a wrong connection or a missing right.
"""
