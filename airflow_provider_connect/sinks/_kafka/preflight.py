"""Finds problems of a publish before the source is polled."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.kafka.transaction import transactional_id
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.ledger.records import DayEntry
from airflow_provider_connect.sinks._kafka.ledger_check import LedgerCheck
from airflow_provider_connect.sinks._kafka.planner import Planner, require_transaction_time
from airflow_provider_connect.sinks._kafka.topic_names import topic_names
from airflow_provider_connect.sinks._kafka.topics import TopicAdmin
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa


_PERSON_WAITS_SECONDS = 10.0


class Preflight:
    """Checks columns, cluster, topics, ledger and registry, once a job."""

    def __init__(self, cluster: Cluster, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> None:
        self.cluster = cluster
        self.options = cluster.options
        self.schema = schema
        self.kind = kind
        self.oldest = min(days, key=lambda day: day.date, default=None)
        self.planner = Planner(cluster, schema)

    @cached_property
    def topics(self) -> TopicAdmin:
        """Topics of the cluster. Each is read once."""
        return self.cluster.topics()

    def problems(self) -> list[str]:
        """Return all problems. Creates missing topics if there are none."""
        complaints = self.problems_without_changes()
        if complaints := complaints or self._problems_of(self._try_transactional_id):
            return complaints
        complaints = self._problems_of(lambda: self.topics.ensure_ledger_topic(self.options.ledger_topic))
        if not complaints and (
            blocking := self._problems_of(self._missing_rights)
            or self._problems_of(LedgerCheck(self.cluster, self.topics).problems)
        ):
            return blocking  # a deleted topic must not be created again
        for step in (self._create_topics, self._ledger_problems, self._erase_list_problems):
            complaints += self._problems_of(step)
        complaints = complaints or self._problems_of(self._first_publish_rights)
        if not complaints and self.options.route_column is None:
            complaints += self._problems_of(lambda: self.planner.schema_problems(self.options.topic))
        return complaints

    def inspect(self) -> list[str]:
        """Return :meth:`problems_without_changes`. Waits at most ten seconds for the cluster."""
        return self._problems_of(lambda: self._reach_cluster(_PERSON_WAITS_SECONDS)) or self.problems_without_changes()

    def problems_without_changes(self) -> list[str]:
        """Return problems found without creating topics or taking a transactional id."""
        complaints = self._column_problems() + self.planner.snapshot_problems(self.kind)
        complaints = complaints or self._problems_of(self._reach_cluster)
        if not complaints:
            complaints = self._problems_of(self._missing_rights) or self._problems_of(self._missing_topic_problems)
            complaints += self._problems_of(self._timeout_problems)
        return complaints

    @staticmethod
    def _problems_of(step: Callable[[], list[str]]) -> list[str]:
        try:
            return step()
        except (ConfigError, DataError) as error:
            return [str(error)]

    def _column_problems(self) -> list[str]:
        import pyarrow as pa

        options, schema = self.options, self.schema
        named_columns = [
            *(("key_fields", name) for name in options.key_fields),
            ("topic", options.route_column),
            ("timestamp_field", options.timestamp_field),
            ("delete_where", options.delete_where),
            ("value_field", options.value_field),
        ]
        complaints = [
            f"{option}: the source has no column {name!r}. It has {', '.join(schema.names)}"
            for option, name in named_columns
            if name is not None and name not in schema.names
        ]
        if complaints:
            return complaints
        if options.timestamp_field and not pa.types.is_timestamp(schema.field(options.timestamp_field).type):
            complaints.append(f"timestamp_field: column {options.timestamp_field!r} holds no timestamps")
        if options.delete_where and not pa.types.is_boolean(schema.field(options.delete_where).type):
            complaints.append(f"delete_where: column {options.delete_where!r} holds no booleans")
        complaints += options.key_encoder_for(schema).problems()
        return complaints + options.value_converter_for(schema, dt.date.min).problems()

    def _erase_list_problems(self) -> list[str]:
        options = self.options
        erase_list = EraseList() if options.route_column is not None else self.cluster.ledger.erased()
        complaints = [problem] if (problem := erase_list.column_problem(self.schema.names)) is not None else []
        if erase_list.version and not options.takes_turns:
            complaints.append(
                f"topic {options.topic!r} has an erase list, and without turns a publish could run during an erase: "
                "set delivery='exactly_once', atomicity='day' and turns='topic', or publish into another topic"
            )
        return complaints

    def _reach_cluster(self, max_seconds: float | None = None) -> list[str]:
        self.topics.wait_until_reachable(max_seconds)
        return []

    def _first_publish_rights(self) -> list[str]:
        ledger = self.cluster.ledger
        return self._missing_rights(reads=not ledger.has_claims() and not ledger.newest_entries(1, "ignore"))

    def _missing_rights(self, *, reads: bool = False) -> list[str]:
        options = self.options
        needed: dict[str, tuple[str, ...]] = {options.ledger_topic: ("READ", "WRITE")}
        if options.route_column is None:
            compared = self.kind == "snapshot" and options.cleanup == "compact"
            needed[options.topic] = ("READ", "WRITE") if compared or reads else ("WRITE",)
        if options.errors_tolerance == "all":
            needed[options.effective_dead_letter_topic] = ("WRITE",)
        return self.topics.missing_rights(needed)

    def _try_transactional_id(self) -> list[str]:
        options = self.options
        if options.delivery == "exactly_once":
            probe = transactional_id(self.cluster.key.connector, self.cluster.key.stream, options.topic, "preflight")
            self.cluster.transaction(probe).fence()
        return []

    def _missing_topic_problems(self) -> list[str]:
        options, topics, writing = self.options, self.topics, self.planner.intended_writes(self.oldest)
        complaints = topics.ledger_problems_if_created(options.ledger_topic)
        if options.errors_tolerance == "all":
            complaints += topics.dead_letter_problems_if_created(options.effective_dead_letter_topic)
        if options.route_column is None:
            return complaints + topics.problems_if_created([options.topic], writing)
        [example] = topic_names(options.topic, ["example"]).values()
        return complaints + topics.example_problems_if_created(example, writing)

    def _create_topics(self) -> list[str]:
        options, topics, complaints = self.options, self.topics, []
        if options.errors_tolerance == "all":
            complaints += topics.ensure_dead_letter_topic(options.effective_dead_letter_topic)
        if options.route_column is not None:
            return complaints  # created with the day that has their values
        return complaints + self.planner.topic_problems(topics, [options.topic], self.oldest)

    def _timeout_problems(self) -> list[str]:
        options = self.options
        if options.delivery == "at_least_once":
            return []
        allowed_ms = self.topics.max_transaction_timeout_ms()
        if allowed_ms is not None and options.transaction_timeout_seconds * 1000 > allowed_ms:
            return [
                f"transaction_timeout_seconds={options.transaction_timeout_seconds:,.0f} is more than the broker "
                f"allows (transaction.max.timeout.ms={allowed_ms:,}): lower the one or raise the other"
            ]
        return []

    def _ledger_problems(self) -> list[str]:
        options, ledger = self.options, self.cluster.ledger
        newest = ledger.newest_entries(1)
        if not newest:
            return []
        require_transaction_time(options, newest[0].row.rows if options.is_one_transaction else 0, ledger)
        return self._column_drift(newest[0])

    def _column_drift(self, newest: DayEntry) -> list[str]:
        options = self.options
        if options.value_is_registered or options.schema_contract == "ignore":
            return []
        day = newest.row.day
        complaints = [
            f"column {field.name!r} was {newest.columns[field.name]} on {day} and is {field.type} now: cast it in the "
            "source, publish into another topic, or set schema_contract='ignore'"
            for field in self.schema
            if newest.columns.get(field.name, str(field.type)) != str(field.type)
        ]
        if options.schema_contract == "freeze" and newest.columns:
            complaints += [
                f"column {field.name!r} is new since {day}, and schema_contract='freeze'"
                for field in self.schema
                if field.name not in newest.columns
            ]
        return complaints
