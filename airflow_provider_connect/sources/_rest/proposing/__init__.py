"""Proposes a declaration: a person reads it, mends it, and tries it before it loads anything."""
