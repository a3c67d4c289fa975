"""Columns to bytes and back, a whole column at a time; knows Arrow, and nothing of where values come from or go."""
