"""Fixtures of the tests of topics."""

from tests.equipment.kafka.loads import loads, topic

__all__ = ["loads", "topic"]
