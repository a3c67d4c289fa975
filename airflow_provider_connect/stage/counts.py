"""Names of counts that more than one room reads."""

FILTERED = "shape_filtered"
"""Rows that shapes have left out."""
