"""Polls the records whose timestamps lie in a day.

Timestamps of producers (CreateTime) stand in any order. So a day is read from its first record to the topic's end, and
other days' records are left out. Timestamps of brokers (LogAppendTime) rise, but for the brokers' clocks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.days import require_over
from airflow_provider_connect.polling.late import count_late
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources._kafka.cluster import Cluster
from airflow_provider_connect.sources._kafka.poller import RecordPoller, Selector
from airflow_provider_connect.sources._kafka.ranges import OffsetRange, deal_out
from airflow_provider_connect.sources._kafka.records import Record
from airflow_provider_connect.sources._kafka.spans import TopicState
from airflow_provider_connect.window import Day

_LOG = logging.getLogger("airflow_provider_connect.sources.kafka")
_CLOCK_MS = 3_600_000
"""How far the clocks of brokers may be apart."""
_BROKERS_TIME = "LogAppendTime"


class DayBounds(NamedTuple):
    """A day in milliseconds since 1970. ``end`` is not included."""

    begin: int
    end: int

    @classmethod
    def of(cls, day: Day) -> DayBounds:
        """Return the bounds of a day."""
        return cls(*(int(bound.timestamp() * 1000) for bound in (day.start, day.end)))


class TimestampPoller(RecordPoller):
    """Polls days by the records' timestamps."""

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return partitions of about ``records_per_task`` offsets.

        :raises ConfigError: a KafkaSink wrote a topic, or a day is not over.
        :raises RetriableError: an open transaction may hide records of a day.
        """
        (day,) = days
        options = self._options
        require_over(day, options.zone)
        cluster = Cluster(self._connection, options.timeout_seconds)
        states = cluster.topic_states(self.selected_topics(cluster), options.transaction_wait_seconds)
        foreign_topics = self.require_foreign_topics(cluster, [state.name for state in states])
        _require_no_transaction(states)
        parts = deal_out(self._ranges(cluster, states, day), options.records_per_task)
        return [
            InputPartition(days=(day,), index=index, params=self.params_of(part, foreign_topics))
            for index, part in enumerate(parts)
        ]

    def _ranges(self, cluster: Cluster, states: Sequence[TopicState], day: Day) -> Iterator[OffsetRange]:
        bounds = DayBounds.of(day)
        keys = [(state.name, number) for state in states for number in state.bounds]
        begins = cluster.offsets_at(keys, bounds.begin)
        times = cluster.topic_settings([state.name for state in states], "message.timestamp.type")
        by_broker = [key for key in keys if times.get(key[0]) == _BROKERS_TIME]
        ends = cluster.offsets_at(by_broker, bounds.end + _CLOCK_MS)
        for state in states:
            for number, partition in sorted(state.bounds.items()):
                begin = begins.get((state.name, number))
                if begin is None:
                    continue
                if begin == partition.first > 0:
                    _LOG.warning(
                        "topic %r partition %d begins in day %s or later: earlier records of the day may be deleted",
                        state.name, number, day,
                    )  # fmt: skip
                end = min(partition.stable_end, ends.get((state.name, number), partition.stable_end))
                yield OffsetRange(state.name, state.identity, number, begin, max(begin, end))

    def selector(self, part: InputPartition, tally: Tally) -> Selector:
        """Return the selection of the day's records. It counts late ones."""
        (day,) = part.days
        bounds = DayBounds.of(day)
        newest: dict[tuple[str, int], int] = {}

        def select(records: list[Record]) -> list[Record]:
            tally.counts["without_timestamp"] += sum(record.timestamp_ms is None for record in records)
            arrivals = arrival_times(records, newest)
            selected = [
                (record, arrival)
                for record, arrival in zip(records, arrivals, strict=True)
                if record.timestamp_ms is not None and bounds.begin <= record.timestamp_ms < bounds.end
            ]
            _count_late(tally, day, [arrival for _, arrival in selected])
            return [record for record, _ in selected]

        return select


def arrival_times(records: Sequence[Record], newest: dict[tuple[str, int], int]) -> list[int]:
    """Return a time in milliseconds that each record cannot have arrived before: the newest timestamp up to it.

    :param newest: newest timestamp of each partition so far, updated.
    """
    arrivals = []
    for record in records:
        key = record.topic, record.partition
        newest[key] = max(newest.get(key, 0), record.timestamp_ms or 0)
        arrivals.append(newest[key])
    return arrivals


def _count_late(tally: Tally, day: Day, arrivals: Sequence[int]) -> None:
    import pyarrow as pa

    instants = pa.array(arrivals, pa.int64()).cast(pa.timestamp("ms")).cast(pa.timestamp("us"))
    count_late(tally, day, instants)


def _require_no_transaction(states: Sequence[TopicState]) -> None:
    for state in states:
        for number, bounds in sorted(state.bounds.items()):
            if bounds.log_end > bounds.stable_end:
                raise RetriableError(
                    f"topic {state.name!r} partition {number}: a transaction is open at offset "
                    f"{bounds.stable_end:,}, which may hide records of the day. Its end, or its timeout, shows them"
                )
