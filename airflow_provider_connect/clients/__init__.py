"""Clients of other systems; they know no day, no stage and no ledger."""
