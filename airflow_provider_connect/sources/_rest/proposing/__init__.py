"""Proposes a declaration, which a person corrects and tries."""
