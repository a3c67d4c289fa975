"""A vendor's quota, shared by all its tasks: limits, usage and reservations."""
