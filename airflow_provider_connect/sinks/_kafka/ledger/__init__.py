"""Ledger of the Kafka sink: published days, claims, notes and erase lists."""
