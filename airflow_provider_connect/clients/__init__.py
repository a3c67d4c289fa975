"""How systems are spoken to: no day, no stage, no ledger."""
