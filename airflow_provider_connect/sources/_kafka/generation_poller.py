"""Polls days that a KafkaSink published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_connect.capabilities.poller import AcceptsParts
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.days import require_over
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.readers._kafka_ledger import newest_entries
from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.sources._kafka.cluster import Cluster
from airflow_provider_connect.sources._kafka.generations import PublishedDay, published_day
from airflow_provider_connect.sources._kafka.options import KafkaOptions
from airflow_provider_connect.sources._kafka.poller import RecordPoller, Selector
from airflow_provider_connect.sources._kafka.ranges import OffsetRange, deal_out
from airflow_provider_connect.sources._kafka.records import Record
from airflow_provider_connect.window import Day

_COUNT = "records_of_day"


class GenerationPoller(RecordPoller, AcceptsParts):
    """Polls the newest generation of days that a KafkaSink published."""

    def __init__(self, options: KafkaOptions, connection: Connection) -> None:
        super().__init__(options, connection)
        self._published: dict[Day, PublishedDay] = {}

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return partitions of about ``records_per_task`` offsets of the days' newest generations.

        :raises ConfigError: the ledger does not have the topics, or records were deleted.
        :raises RetriableError: a day is not published yet.
        """
        options = self._options
        cluster = Cluster(self._connection, options.timeout_seconds)
        names = self.selected_topics(cluster)
        states = {state.name: state for state in cluster.topic_states(names)}
        entries, _ = newest_entries(self._connection, options.ledger_topic or "", options.timeout_seconds)
        partitions: list[InputPartition] = []
        for day in days:
            require_over(day, options.zone)
            published = published_day(entries, names, day.date, options.published_stream)
            with self._lock:
                self._published[day] = published
            ranges = []
            for (topic, number), begin, end in published.stretches():
                bounds = states[topic].bounds.get(number)
                if bounds is None or begin < bounds.first or end > bounds.stable_end:
                    raise ConfigError(
                        f"topic {topic!r} partition {number} lacks records of day {day} from offset {begin:,} to "
                        f"{end - 1:,}: retention deleted them, or the topic was made again. Publish the day again. The "
                        "published rows stay"
                    )
                ranges.append(OffsetRange(topic, states[topic].identity, number, begin, end))
            parts = deal_out(ranges, options.records_per_task)
            for part in parts:
                selection = published.params({(one.topic, one.partition) for one in part})
                params = self.params_of(part, ()) | {"selection": selection, "is_alone": len(parts) == 1}
                params["rows"] = [published.rows, published.is_exact, published.is_whole]
                partitions.append(InputPartition(days=(day,), index=len(partitions), params=params))
        return partitions

    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Check that all records of the generation were read.

        :raises DataError: another number.
        """
        with self._lock:
            published = self._published[day]
        _require_rows(day, counts.get(_COUNT, 0), published.rows, published.is_exact, published.is_whole)

    def selector(self, part: InputPartition, tally: Tally) -> Selector:
        """Return the selection of the newest generation. It counts the records."""
        published = PublishedDay.from_params(part.params["selection"])

        def select(records: list[Record]) -> list[Record]:
            selected = [record for record in records if published.has(record)]
            tally.counts[_COUNT] += len(selected)
            return selected

        return select

    def finish(self, part: InputPartition, tally: Tally) -> None:
        """Check the number of records of a day with one partition."""
        if part.params["is_alone"]:
            (day,) = part.days
            _require_rows(day, tally.counts[_COUNT], *part.params["rows"])

    def reads_headers(self) -> bool:
        """Headers name a record's generation."""
        return True


def _require_rows(day: Day, records: int, rows: int, is_exact: Any, is_whole: Any) -> None:
    if is_whole and (records < rows or (is_exact and records > rows)):
        raise DataError(
            f"day {day}: the topic has {records:,} of {rows:,} published records: the others were deleted, or carry no "
            "connect.… headers. Publish the day again, with headers=True"
        )
