"""Read-only sessions with databases. Rows become Arrow batches exactly, or the read fails."""
