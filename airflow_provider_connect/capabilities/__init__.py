"""Capabilities: what only some sources can do, each a small class that a source names as a base."""
