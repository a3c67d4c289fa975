"""A vendor's hourly quota, which all tasks share: limits, usage and reservations."""
