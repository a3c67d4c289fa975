"""Fixtures of the tests with Spark."""

from tests.equipment.kafka.loads import loads, topic

__all__ = ["loads", "topic"]
