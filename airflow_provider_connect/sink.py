"""The contract of sinks, which every file in ``sinks/`` fulfils.

The life of one day, with the capability (:mod:`.capabilities`) that a step needs::

    driver         preflight(schema, days, kind)     once a job, before the first request to the source
    driver         ledger                            published days; also in the Airflow task
    driver         differences(publish)              if the day replaces an earlier publish      (TellsDifferences)
    driver         begin(publish)                    fence, staging table, streams               (StagesByExecutors)
    executor       put(token, stage, share)          any number of times, repeatable             (StagesByExecutors)
    driver         commit(publish, token, receipts)  data and ledger row in one step
    driver         confirm(publish)                  instead, if the answer equals the published (Confirms)
    driver         abort(publish, token)             after any error since begin                 (StagesByExecutors)
    driver         sweep()                           once a job, last: leftovers of dead attempts (Sweeps)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import Connector, Opened
from airflow_provider_connect.ledger import DefinitionInForce, Intent, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.stage.stream_names import names_streams, with_stream_names
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.tables import TableTemplate

__all__ = ["DefinitionInForce", "Intent", "Ledger", "LedgerRow", "StreamKey"]  # the ledger's, for those who write one

Connections = dict[str, Connection]
OnEmpty = Literal["fail", "accept", "never"]
"""Treatment of an answer without rows: fail if rows are published, publish it, or always fail."""


@dataclass(frozen=True)
class Publish:
    """One day on its way into the sink.

    :param stage: path or URL of the stage's root.
    :param labels: DAG, run and task, without secrets.
    :param answer: 32 hex digits, over the answer's contents and everything that decides the published rows. None if
        unknown.
    :param definition: digest of the stream's definition.
    :param definition_seen: digest of the definition in force before the poll.
    """

    key: StreamKey
    day: Day
    intent: Intent
    manifest: Manifest
    schema: pa.Schema
    stage: str
    kind: SourceKind = "day"
    labels: Mapping[str, str] = field(default_factory=dict)
    on_empty: OnEmpty = "fail"
    answer: str | None = None
    definition: str | None = None
    definition_seen: str | None = None


class Sink(Connector):
    """Base of every sink."""

    name: ClassVar[str]
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Options that name an Airflow connection, with its allowed connection types."""

    stream_option: ClassVar[str] = ""
    """Option whose ``{schema}`` and ``{table}`` name the stream if the source has many. "" without one."""

    @property
    def names_streams(self) -> bool:
        """True if each of a source's streams gets its own target."""
        return bool(self.stream_option) and names_streams(str(getattr(self, self.stream_option)))

    def for_stream(self, names: Mapping[str, str]) -> Self:
        """Return the sink of one stream, with its names in the target.

        :param names: values of ``schema`` and ``table``.
        :raises ConfigError: the stream's name cannot be part of the target.
        """
        options = {name: getattr(self, name) for name in self.model_fields_set}
        target = with_stream_names(str(options[self.stream_option]), names)
        return type(self)(**options | {self.stream_option: target})

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """Airflow connections that the sink needs."""
        return tuple(filter(None, (getattr(self, option) for option in self.connection_types)))

    @property
    @abstractmethod
    def target(self) -> str:
        """Stable name of the target, such as a table's URL or a topic. Part of offset and asset, without secrets."""

    @property
    @abstractmethod
    def asset_uri(self) -> str:
        """URI of the target's Airflow asset."""

    def replaces(self, kind: SourceKind) -> bool:
        """Return True if a publish replaces published rows."""
        return True

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True if a publish replaces everything in the target."""
        return False

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Return a problem for each option without meaning for this kind of rows. Without network."""
        return []

    def ordered_by(self, columns: tuple[str, ...]) -> Self:
        """Return the sink that decides by a source's columns which of two rows is newer, if its options do not say.

        :param columns: see :attr:`.Source.order_columns`.
        """
        return self

    def shapes_for(self, schema: pa.Schema) -> list[dict[str, Any]]:
        """Return shapes that fit rows to the target, as in pipeline files: ``{"rename": {"columns": …}}``.

        They follow the task's own shapes. A task with a transform has none.

        :param schema: columns after the task's shapes.
        """
        return []

    @property
    def reloads(self) -> bool:
        """True if a day may be published again without doubling its rows."""
        return True

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Return True if rows are merged, compacted or soft-deleted by key."""
        return False

    @property
    def keeps_spans(self) -> bool:
        """True if the ledger records the end of each increment."""
        return False

    def check(self, connections: Connections) -> list[str]:
        """Return problems of the options with these connections, with remedies. Without network."""
        return []

    def stage_root(self, connections: Connections) -> str | None:
        """Return the path or URL where the stage must lie and stay.

        None if it may lie anywhere.
        """
        return None

    def dataset(self, connections: Connections) -> Dataset:
        """Return the target's name in lineage, by default from its asset. No network, no secret."""
        return Dataset.from_uri(self.asset_uri)

    @property
    def tables(self) -> TableTemplate | None:
        """The rule that assigns rows to tables, or None if all share one."""
        return None

    @abstractmethod
    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher for one stream, without network.

        Runs on driver, executor and in the Airflow task.
        """


class Publisher(Opened):
    """Publisher of one stream.

    The driver has one for all days of a job, called from several threads. Each executor task has its own.
    """

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """The stream's ledger, empty if the target does not exist yet."""

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return problems that a person must correct in the target. Driver, once a job, before any request."""
        return []

    @abstractmethod
    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Make the day and its ledger row visible in one step. Runs on the driver, once an attempt. Safe to repeat.

        Commits only if the ledger's state in that step equals the manifest's ``seen`` (:mod:`.publishing`), and returns
        an earlier row of the intent.

        :raises OvertakenError: another attempt has published the day since this one began to poll.
        :raises SupersededError: a later day's snapshot is published.
        :raises RetriableError: the sink is unreachable, or concurrent commits came first.
        :raises DataError: a column's type conflicts with the target's.
        """
