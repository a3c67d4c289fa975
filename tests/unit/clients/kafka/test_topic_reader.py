"""A partition is read until its end is where the leader said, whatever comes with the records."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from airflow_provider_connect.clients.kafka.topic_reader import TopicReader
from airflow_provider_connect.errors import RetriableError

END = KafkaError._PARTITION_EOF


class Said:
    """What a consumer hands over: a record, or a partition's end where ``code`` is set."""

    def __init__(self, partition: int, offset: int, code: int | None = None) -> None:
        self._partition, self._offset, self._code = partition, offset, code

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)


class Leader:
    """A consumer of partitions that says these things, and then nothing."""

    def __init__(self, *said: list[Said]) -> None:
        self._said = list(said)

    def assign(self, places: list[Any]) -> None:
        self.assigned = {place.partition: place.offset for place in places}

    def consume(self, most: int, seconds: float) -> list[Said]:
        return self._said.pop(0) if self._said else []


def read(leader: Any, ends: dict[int, int]) -> tuple[list[int], dict[int, int]]:
    partitions = TopicReader(leader, "t", "topic 't'", 0.1)
    found = [
        message.offset() for records in partitions.read_batches(dict.fromkeys(ends, 0), ends) for message in records
    ]
    return found, partitions.stop_offsets


def test_an_end_before_the_requested_offset_does_not_stop_the_read() -> None:
    """As a leader says it that was just elected, and does not know yet what the one before it had committed."""
    leader = Leader([Said(0, 0), Said(0, 1, END)], [Said(0, 1), Said(0, 2)], [Said(0, 3, END)])
    assert read(leader, {0: 3}) == ([0, 1, 2], {0: 3})


def test_every_partition_is_read_to_its_own_end() -> None:
    leader = Leader([Said(1, 0, END), Said(0, 0)], [Said(0, 4, END)])
    assert read(leader, {0: 2, 1: 0}) == ([0], {0: 4, 1: 0})
    assert leader.assigned == {0: 0, 1: 0}
    assert read(Leader(), {}) == ([], {})


def test_a_forbidden_group_does_not_fail_a_reader() -> None:
    leader = Leader([Said(0, 0, KafkaError.GROUP_AUTHORIZATION_FAILED), Said(0, 0)], [Said(0, 1, END)])
    assert read(leader, {0: 1}) == ([0], {0: 1})


def test_a_read_that_never_reaches_its_end_is_retriable() -> None:
    with pytest.raises(RetriableError, match="topic 't' could not be read to its end"):
        read(Leader([Said(0, 0), Said(0, 1, END)]), {0: 3})
