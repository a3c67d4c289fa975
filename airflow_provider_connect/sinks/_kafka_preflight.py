"""What would fail a publish, found before the first request to the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Connections, StreamKey
from airflow_provider_connect.sinks._kafka_converters import problems as value_problems
from airflow_provider_connect.sinks._kafka_history import History
from airflow_provider_connect.sinks._kafka_keys import problems as key_problems
from airflow_provider_connect.sinks._kafka_ledger import Entry
from airflow_provider_connect.sinks._kafka_names import topics as names_of
from airflow_provider_connect.sinks._kafka_plan import check_time, looked_at, schema_problems, snapshot_problems
from airflow_provider_connect.sinks._kafka_publisher import Publisher
from airflow_provider_connect.sinks._kafka_topics import Topics
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
        if found:
            return found
        found = self._told(lambda: self.topics.ensure_ledger(self.sink.ledger_topic))
        if not found and (lost := self._told(self._history)):
            return lost  # a topic that is missing because it was deleted is not made again
        for step in (self._topics, self._transactions, lambda: self._ledger(schema)):
            found += self._told(step)
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
        found += key_problems(schema, sink.key_fields)
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

    def _topics(self) -> list[str]:
        sink, topics, found = self.sink, self.topics, []
        if sink.errors_tolerance == "all":
            found += topics.ensure_plain(sink.dead_letters)
        if sink.route_column is not None:
            return found + topics.rehearse(list(names_of(sink.topic, ["example"]).values()))
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
        newest = ledger.newest(1)
        if not newest:
            return []
        in_one = sink.delivery == "exactly_once" and sink.atomicity == "day"
        check_time(sink, newest[0].row.rows if in_one else 0, ledger)
        return self._drift(schema, newest[0])

    def _drift(self, schema: pa.Schema, newest: Entry) -> list[str]:
        """Say which columns are not what they were, where no registry decides."""
        sink = self.sink
        if sink.registry_conn_id is not None or sink.schema_contract == "ignore":
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
