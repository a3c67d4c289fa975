"""Pairs of tasks that load one target, against a model."""
