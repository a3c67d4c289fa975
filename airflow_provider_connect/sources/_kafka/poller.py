"""Polls topics: fixes an increment's offsets on the driver, and reads its ranges on the executors."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.clients.kafka.connection import registry_connection
from airflow_provider_connect.clients.kafka.registry import RegistryClient
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.days import require_begun
from airflow_provider_connect.source import InputPartition, PlanGoneError, Poller
from airflow_provider_connect.sources._kafka.cluster import Cluster
from airflow_provider_connect.sources._kafka.consumer import open_consumer
from airflow_provider_connect.sources._kafka.dead_letters import DeadLetterTopic, UnreadableRecord
from airflow_provider_connect.sources._kafka.options import KafkaOptions
from airflow_provider_connect.sources._kafka.positions import Position
from airflow_provider_connect.sources._kafka.published import (
    read_entries,
    require_foreign_record,
    require_no_generations,
)
from airflow_provider_connect.sources._kafka.ranges import OffsetRange, deal_out
from airflow_provider_connect.sources._kafka.records import Record
from airflow_provider_connect.sources._kafka.registered import REGISTRY_READERS, ReadJson
from airflow_provider_connect.sources._kafka.rows import RowBuilder, schema_of
from airflow_provider_connect.sources._kafka.spans import next_increment, same_increment
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally

Selector = Callable[[list[Record]], list[Record]]
_LOG = logging.getLogger("airflow_provider_connect.sources.kafka")


class RecordPoller(Poller):
    """Polls ranges of offsets. Subclasses plan them."""

    def __init__(self, options: KafkaOptions, connection: Connection) -> None:
        self._options = options
        self._connection = connection
        self._lock = threading.Lock()

    def close(self) -> None:
        """Nothing stays open between calls."""

    def schema(self) -> pa.Schema:
        """Return the schema of the rows. Asks nothing of the cluster."""
        return schema_of(self._options)

    def selector(self, part: InputPartition, tally: Tally) -> Selector:
        """Return a function that selects the records of a partition that become rows, called in their order."""
        return lambda records: records

    def finish(self, part: InputPartition, tally: Tally) -> None:
        """Check a partition whose ranges were read to their ends."""

    def reads_headers(self) -> bool:
        """Return True if the records' headers are needed."""
        return "headers" in self._options.own_columns or self._options.dead_letter_topic is not None

    def selected_topics(self, cluster: Cluster) -> list[str]:
        """Return the topics to read. Checks the topic of dead letters: a producer would wait for a missing one.

        :raises ConfigError: it does not exist, or no topic is selected.
        """
        if self._options.dead_letter_topic is not None:
            cluster.topic_identities([self._options.dead_letter_topic])
        return cluster.topic_names(self._options)

    def require_foreign_topics(self, cluster: Cluster, names: Sequence[str]) -> Sequence[str]:
        """Check that no KafkaSink wrote the topics. Returns those whose records must show it as well.

        :raises ConfigError: the ledger has days in a topic.
        """
        options = self._options
        if options.ledger_topic is None:
            return ()
        compacted = cluster.compacted_topics(list(names))  # the newest record of each key counts there
        foreign_topics = [name for name in names if name not in compacted]
        entries = read_entries(self._connection, options.ledger_topic, options.timeout_seconds)
        require_no_generations(foreign_topics, entries, options.ledger_topic)
        return foreign_topics

    def params_of(self, ranges: Sequence[OffsetRange], foreign_topics: Sequence[str]) -> dict[str, Any]:
        """Return the parameters of an input partition. Its records must show that no KafkaSink wrote its topics.

        :param foreign_topics: of the plan.
        """
        topics = {offset_range.topic for offset_range in ranges} & set(foreign_topics)
        return {"ranges": [list(offset_range) for offset_range in ranges], "foreign_topics": sorted(topics)}

    def _send_dead_letters(self, part: InputPartition, unreadable_records: Sequence[UnreadableRecord]) -> None:
        options = self._options
        if options.dead_letter_topic is None or not unreadable_records:
            return
        stream, task = f"kafka/{options.stream_key}", f"{part.days[0]}/{part.index}"
        topic = DeadLetterTopic(self._connection, options.dead_letter_topic, options.timeout_seconds)
        topic.send(unreadable_records, stream, task)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition's ranges.

        :raises RetriableError: the brokers do not answer, or a range cannot be read to its end in time. A
            :class:`.PlanGoneError` if a topic was made again since the plan.
        :raises ConfigError: credentials or rights are wrong, or records were deleted since the plan.
        :raises DataError: a record cannot be read, and ``errors_tolerance`` does not allow it.
        """
        (day,) = part.days
        ranges = [OffsetRange(*values) for values in part.params["ranges"]]
        self._require_same_topics(ranges)
        check_first = partial(require_foreign_record, frozenset(part.params.get("foreign_topics", ())))
        with ExitStack() as stack:
            select = self.selector(part, tally)
            builder = RowBuilder(self._options, self._open_readers(stack))
            reader = stack.enter_context(
                open_consumer(self._connection, ranges, reads_headers=self.reads_headers(), check_first=check_first)
            )
            for records in reader.read(self._options.timeout_seconds):
                tally.raw_bytes += sum(len(record.value or b"") + len(record.key or b"") for record in records)
                batch = builder.build(select(records), tally)
                if batch.num_rows:
                    yield day, batch
        self.finish(part, tally)
        self._send_dead_letters(part, builder.unreadable_records)
        self._require_same_topics(ranges)

    def _open_readers(self, stack: ExitStack) -> dict[str, ReadJson]:
        """Return the readers of registered records by converter. The stack closes their registry.

        :raises ConfigError: the connection names no registry.
        """
        converters = self._options.registry_converters
        if not converters:
            return {}
        registry = RegistryClient(registry_connection(self._connection), self._options.timeout_seconds)
        stack.enter_context(closing(registry))
        return {converter: REGISTRY_READERS[converter](registry) for converter in converters}

    def _require_same_topics(self, ranges: Sequence[OffsetRange]) -> None:
        """Check that no topic was deleted and made again since the plan: its offsets would be those of other records.

        :raises PlanGoneError: a topic has another id.
        """
        ids = {offset_range.topic: offset_range.identity for offset_range in ranges}
        cluster = Cluster(self._connection, self._options.timeout_seconds)
        for name, (identity, _) in cluster.topic_identities(sorted(ids)).items():
            if identity != ids[name]:
                raise PlanGoneError(f"topic {name!r} was deleted and made again since the plan of this run")


class KafkaPoller(RecordPoller, Follows):
    """Polls increments of the selected topics of one cluster."""

    def __init__(self, options: KafkaOptions, connection: Connection) -> None:
        super().__init__(options, connection)
        self._ranges: dict[Day, Sequence[OffsetRange]] = {}
        self._foreign_topics: Sequence[str] = ()

    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix the offsets that a day's run reads. Returns the position after them.

        :raises ConfigError: a topic is missing, the position is not Kafka's, or records are lost (``on_lost``).
        """
        options = self._options
        cluster = Cluster(self._connection, options.timeout_seconds)
        names = self.selected_topics(cluster)
        begin = None if after is None else Position.parse(after)
        if to is None:
            states = cluster.topic_states(names, options.transaction_wait_seconds)
            increment = next_increment(states, begin, options.start, options.on_lost)
        else:
            increment = same_increment(cluster.topic_states(names), begin, Position.parse(to), options.start)
        foreign_topics = self.require_foreign_topics(cluster, names)
        for warning in increment.warnings:
            _LOG.warning("%s", warning)
        with self._lock:
            self._ranges[day] = increment.ranges
            self._foreign_topics = foreign_topics
        return increment.end.text()

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return partitions of about ``records_per_task`` offsets. Without :meth:`follow`, all records so far.

        :raises ConfigError: the day is in another zone, or has not begun.
        """
        (day,) = days
        require_begun(day, self._options.zone, dt.datetime.now(dt.UTC))
        with self._lock:
            ranges = self._ranges.get(day)
        if ranges is None:
            self.follow(day, None, None)
            ranges = self._ranges[day]
        return [
            InputPartition(days=(day,), index=index, params=self.params_of(part, self._foreign_topics))
            for index, part in enumerate(deal_out(ranges, self._options.records_per_task))
        ]
