"""Erases people's rows from a table and keeps them out."""
