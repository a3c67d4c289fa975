"""Ledger of the Kafka sink."""
