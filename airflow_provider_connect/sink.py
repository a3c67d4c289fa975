"""What a sink is: the contract that every file in ``sinks/`` fulfils.

A sink is a pydantic model: its options, pure data that a DAG file imports. Its :class:`Publisher` does the work for one
stream. The life of one day, with the capabilities (:mod:`.capabilities`) that a step needs::

    driver         preflight(schema, days, kind)     once a job, before the first request to the source
    driver         ledger                            what was published already; also in the Airflow task
    driver         differences(publish)              of a day that replaces an earlier publish  (TellsDifferences)
    driver         begin(publish)                    fence, staging table, streams              (StagesByExecutors)
    executor       put(token, stage, share)          any number of times, repeatable            (StagesByExecutors)
    driver         commit(publish, token, receipts)  data and ledger row in one step
    driver         confirm(publish)                  instead, if the answer is the published one (Confirms)
    driver         abort(publish, token)             after any error since begin                (StagesByExecutors)
    driver         sweep()                           once a job, last: what dead attempts left  (Sweeps)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import Connector, Opened
from airflow_provider_connect.ledger import DefinitionInForce, Intent, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.tables import Tables

__all__ = ["DefinitionInForce", "Intent", "Ledger", "LedgerRow", "StreamKey"]  # the ledger's, for those who write one

Connections = dict[str, Connection]
OnEmpty = Literal["fail", "accept", "never"]
"""What an answer without rows means: a mistake where rows are published, that they are gone, or always a mistake."""


@dataclass(frozen=True)
class Publish:
    """One day on its way into the sink.

    :param schema: of the staged files' rows.
    :param stage: path or URL of the stage's root; the manifest's paths are relative to it.
    :param labels: for people: dag, run, task; no secret.
    :param on_empty: what an answer without rows means; the driver has asked the ledger.
    :param answer: 32 hex digits, a digest of the answer's contents and of all that decides what becomes of them: the
        options of source and sink, the target and this package's version. None if it is not known.
    :param definition: digest of the stream's definition, whose note the ledger has already.
    :param definition_seen: digest of the definition in force when this attempt looked; None if there was none.
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
    """Options that name an Airflow connection, each with the types that it may be of."""

    @property
    def connection_ids(self) -> tuple[str, ...]:
        """Airflow connections the sink needs."""
        return tuple(filter(None, (getattr(self, option) for option in self.connection_types)))

    @property
    @abstractmethod
    def target(self) -> str:
        """Stable name of what is written to, without secrets: a table's URL, a topic. Part of offset and asset."""

    @property
    @abstractmethod
    def asset_uri(self) -> str:
        """URI of the Airflow asset that stands for the target."""

    def replaces(self, kind: SourceKind) -> bool:
        """Tell whether a publish takes the place of what is published, so that an empty one would leave nothing."""
        return True

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Tell whether a publish replaces everything in the target, and so supersedes all earlier days."""
        return False

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Say which options mean nothing for rows of a kind; [] if all do. No network."""
        return []

    @property
    def reloads(self) -> bool:
        """Whether a day may be published again: not where that would double its rows."""
        return True

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Tell whether rows are merged, compacted or kept as deleted by key. If so, a changed key doubles them."""
        return False

    @property
    def keeps_spans(self) -> bool:
        """Whether its ledger keeps where increments have ended, so that a source may go on from there."""
        return False

    def check(self, connections: Connections) -> list[str]:
        """Say what is wrong with options and connections together; [] when nothing is. No network."""
        return []

    def stage_root(self, connections: Connections) -> str | None:
        """Return the path or URL under which the stage lies and stays; None if it may lie anywhere, and is deleted."""
        return None

    def dataset(self, connections: Connections) -> Dataset:
        """Return what lineage calls the target; by default as its asset is called. No network, no secret."""
        return Dataset.of(self.asset_uri)

    @property
    def tables(self) -> Tables | None:
        """Which table a row belongs to, if the stage keeps the rows of each apart; None where they share one."""
        return None

    @abstractmethod
    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return what publishes one stream; import its module here. Driver, executor and Airflow task; no network."""


class Publisher(Opened):
    """What publishes one stream: one for all days of a job, called from several threads, and one an executor task."""

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """The stream's ledger; of a target that does not exist yet, an empty one."""

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return problems for a person to mend before the first request to the source. Driver, once a job."""
        return []

    @abstractmethod
    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Make the day and its ledger row visible in one step. Driver, once an attempt; safe to repeat.

        An intent that the ledger has already is answered from the ledger. Any other is committed only while the ledger
        says what the manifest has ``seen``, compared in that step (:mod:`.publishing`). Read again after lost answers.

        :param token: what :meth:`.StagesByExecutors.begin` returned; None without that capability.
        :raises OvertakenError: somebody else has published the day since this attempt began to poll.
        :raises SupersededError: a snapshot of a later day is published.
        :raises RetriableError: the sink is away, or others kept winning the race.
        :raises DataError: a column's type conflicts with the target's.
        """
