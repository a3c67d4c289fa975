"""Implementation of the Kafka sink. Its calls raise the errors of :mod:`.clients.kafka`."""
