"""Proposes a declaration for a person to correct and try."""
