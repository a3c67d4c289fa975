"""Databases: one session each, read-only, whose rows become Arrow batches exactly or not at all."""
