"""Clients of other systems, independent of days, stages and ledgers."""
