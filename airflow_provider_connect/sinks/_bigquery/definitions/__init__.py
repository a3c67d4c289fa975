"""The definition in force and the notes of a stream's ledger."""
