"""What a stream's ledger knows beside its days: the definition in force, and notes."""
