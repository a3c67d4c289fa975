"""Read-only database sessions. Rows become Arrow batches exactly, or the read fails."""
