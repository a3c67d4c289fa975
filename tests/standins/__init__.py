"""Servers that play a vendor: for tests, the demo and benchmarks."""
