"""Pairs of tasks that load one target: cases that are drawn, a model of what the target must hold, and their player."""
