"""What would fail a publish, found before the first request to the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.transaction import Transaction, transactional_id
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Connections, StreamKey
from airflow_provider_connect.sinks._kafka.converters import problems as value_problems
from airflow_provider_connect.sinks._kafka.keys import Keys
from airflow_provider_connect.sinks._kafka.ledger.history import History
from airflow_provider_connect.sinks._kafka.ledger.records import Entry
from airflow_provider_connect.sinks._kafka.names import topics as names_of
from airflow_provider_connect.sinks._kafka.plan import (
    check_time,
    looked_at,
    schema_problems,
    snapshot_problems,
    use_of,
)
from airflow_provider_connect.sinks._kafka.publisher import Publisher
from airflow_provider_connect.sinks._kafka.topics import Topics
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks.kafka import KafkaSink


class Preflight:
    """Looks at columns, cluster, topics, ledger and registry of one sink. Driver, once a job."""

    def __init__(
        self, sink: KafkaSink, key: StreamKey, days: Sequence[Day], connections: Connections, kind: SourceKind
    ) -> None:
        self.sink = sink
        self.kind = kind
        self.key = key
        self.oldest = min(days, key=lambda day: day.date, default=None)
        self.connections = connections

    def problems(self, schema: pa.Schema) -> list[str]:
        """Return all problems that can be found at once; make topics when there are none."""
        found = self._columns(schema) + snapshot_problems(self.sink, self.kind)
        found = found or self._told(self._cluster)
        if not found:
            found = self._told(self._rights) or self._told(self._foreseen)
            found += self._told(self._transactions)
        if found := found or self._told(self._transactional_id):
            return found
        found = self._told(lambda: self.topics.ensure_ledger(self.sink.ledger_topic))
        if not found and (wrong := self._told(self._rights) or self._told(self._history)):
            return wrong  # a topic that is missing because it was deleted is not made again
        for step in (self._topics, lambda: self._ledger(schema)):
            found += self._told(step)
        found = found or self._told(self._rights_of_a_first_publish)
        if not found and self.sink.route_column is None:
            found += self._told(lambda: schema_problems(self.sink, schema, self.sink.topic, self.connections))
        return found

    def _told(self, step: Callable[[], list[str]]) -> list[str]:
        try:
            return step()
        except (ConfigError, DataError) as error:
            return [str(error)]

    def _columns(self, schema: pa.Schema) -> list[str]:
        """Say which columns the options name and the source lacks, and which the converter cannot hold."""
        import pyarrow as pa

        sink = self.sink
        named = [("key_fields", name) for name in sink.key_fields]
        named += [
            (option, name)
            for option, name in (
                ("topic", sink.route_column),
                ("timestamp_field", sink.timestamp_field),
                ("delete_where", sink.delete_where),
                ("value_field", sink.value_field),
            )
            if name is not None
        ]
        found = [
            f"{option}: the source has no column {name!r}; it has {', '.join(schema.names)}"
            for option, name in named
            if name not in schema.names
        ]
        if found:
            return found
        if sink.timestamp_field and not pa.types.is_timestamp(schema.field(sink.timestamp_field).type):
            found.append(f"timestamp_field: column {sink.timestamp_field!r} holds no timestamps")
        if sink.delete_where and not pa.types.is_boolean(schema.field(sink.delete_where).type):
            found.append(f"delete_where: column {sink.delete_where!r} holds no booleans")
        found += Keys(sink.key_converter, schema, sink.key_fields, sink.key_record_name).problems()
        return found + value_problems(
            sink.value_converter, schema, record_name=sink.full_record_name, value_field=sink.value_field
        )

    @cached_property
    def publisher(self) -> Publisher:
        """Who would publish."""
        return Publisher(self.sink, self.key, self.connections)

    @cached_property
    def topics(self) -> Topics:
        """The cluster's."""
        return Topics.open(self.connections[self.sink.conn_id], self.sink.rules, self.sink.timeout_seconds)

    def _history(self) -> list[str]:
        return History(self.sink, self.publisher.ledger, self.connections[self.sink.conn_id], self.topics).problems()

    def _cluster(self) -> list[str]:
        self.topics.reach()
        return []

    def _rights_of_a_first_publish(self) -> list[str]:
        """Do the same once all topics are there; before its first publish a stream is looked for in its topic."""
        ledger = self.publisher.ledger
        return self._rights(reads=not ledger.has_claims() and not ledger.newest_entries(1, "ignore"))

    def _rights(self, *, reads: bool = False) -> list[str]:
        """Say which rights are missing on the topics that are there, by name and all at once."""
        sink = self.sink
        needed: dict[str, tuple[str, ...]] = {sink.ledger_topic: ("READ", "WRITE")}
        if sink.route_column is None:
            compared = self.kind == "snapshot" and sink.cleanup == "compact"
            needed[sink.topic] = ("READ", "WRITE") if compared or reads else ("WRITE",)
        if sink.errors_tolerance == "all":
            needed[sink.dead_letters] = ("WRITE",)
        return self.topics.lacking(needed)

    def _transactional_id(self) -> list[str]:
        """Take a transactional id that no day has: only that tells whether the user may, and for so long."""
        sink = self.sink
        if sink.delivery == "exactly_once":
            probe = transactional_id(self.key.connector, self.key.stream, sink.topic, "preflight")
            times = (sink.timeout_seconds, sink.transaction_timeout_seconds)
            with Transaction(self.connections[sink.conn_id], probe, *times) as transaction:
                transaction.fence()
        return []

    def _foreseen(self) -> list[str]:
        """Judge the topics that are missing as they would be made, while nothing is."""
        sink, topics, use = self.sink, self.topics, use_of(self.sink, self.oldest)
        found = topics.foreseen_ledger(sink.ledger_topic)
        if sink.errors_tolerance == "all":
            found += topics.foreseen_plain(sink.dead_letters)
        if sink.route_column is None:
            return found + topics.foreseen([sink.topic], use)
        [example] = names_of(sink.topic, ["example"]).values()
        return found + topics.foreseen_example(example, use)

    def _topics(self) -> list[str]:
        sink, topics, found = self.sink, self.topics, []
        if sink.errors_tolerance == "all":
            found += topics.ensure_plain(sink.dead_letters)
        if sink.route_column is not None:
            return found  # made with the day that has their values
        return found + looked_at(sink, topics, [sink.topic], self.oldest)

    def _transactions(self) -> list[str]:
        sink = self.sink
        if sink.delivery == "at_least_once":
            return []
        most = self.topics.max_transaction_timeout_ms()
        if most is not None and sink.transaction_timeout_seconds * 1000 > most:
            return [
                f"transaction_timeout_seconds={sink.transaction_timeout_seconds:,.0f} is more than the broker allows "
                f"(transaction.max.timeout.ms={most:,}): lower the one or raise the other"
            ]
        return []

    def _ledger(self, schema: pa.Schema) -> list[str]:
        """Compare the newest published day with the time there is, and with the source's columns."""
        sink, ledger = self.sink, self.publisher.ledger
        newest = ledger.newest_entries(1)
        if not newest:
            return []
        in_one = sink.delivery == "exactly_once" and sink.atomicity == "day"
        check_time(sink, newest[0].row.rows if in_one else 0, ledger)
        return self._drift(schema, newest[0])

    def _drift(self, schema: pa.Schema, newest: Entry) -> list[str]:
        """Say which columns are not what they were, where no registry decides."""
        sink = self.sink
        if sink.value_is_registered or sink.schema_contract == "ignore":
            return []
        day = newest.row.day
        found = [
            f"column {field.name!r} was {newest.columns[field.name]} on {day} and is {field.type} now: cast it in the "
            "source, publish into another topic, or set schema_contract='ignore'"
            for field in schema
            if newest.columns.get(field.name, str(field.type)) != str(field.type)
        ]
        if sink.schema_contract == "freeze" and newest.columns:
            found += [
                f"column {field.name!r} is new since {day}, and schema_contract='freeze'"
                for field in schema
                if field.name not in newest.columns
            ]
        return found
