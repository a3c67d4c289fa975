"""Asks an API whose rules are declared: what an answer means, when to ask again, how often at all, and where not to."""
