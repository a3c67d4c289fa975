"""What a sink is: the contract that every file in ``sinks/`` fulfils.

A sink is a pydantic model: its options, pure data that a DAG file imports. :meth:`Sink.open` makes a
:class:`Publisher` of them, which does the work for one stream. The life of one day::

    driver         preflight(schema, days, kind)     once a job, before the first request to the source
    driver         ledger                            what was published already; also in the Airflow task
    driver         differences(publish)              of a day that replaces an earlier publish  (TellsDifferences)
    driver         begin(publish)                    fence, staging table, streams              (StagesByExecutors)
    executor       put(token, stage, share)          any number of times, repeatable            (StagesByExecutors)
    driver         commit(publish, token, receipts)  data and ledger row in one step
    driver         confirm(publish)                  instead, if the answer is the published one (Confirms)
    driver         abort(publish, token)             after any error since begin                (StagesByExecutors)
    driver         sweep()                           once a job, last: what dead attempts left  (Sweeps)

What is published comes from the stage alone: a retry of a publish asks the source for nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.ledger import DefinitionInForce, Intent, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.stage.manifest import Manifest
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.tables import Tables

__all__ = [
    "Connections",
    "DefinitionInForce",
    "Intent",
    "Ledger",
    "LedgerRow",
    "OnEmpty",
    "Publish",
    "Publisher",
    "Sink",
    "StreamKey",
]

C = TypeVar("C")
Connections = dict[str, Connection]
OnEmpty = Literal["fail", "accept", "never"]
"""What an answer without rows means: a mistake where rows are published, that they are gone, or always a mistake."""


_OF_CAPABILITIES = {
    **dict.fromkeys(("begin", "shares", "put", "abort"), "staging.StagesByExecutors"),
    **dict.fromkeys(("find", "erase", "copies"), "erasing.Erases"),
    **dict.fromkeys(("sweep", "leftovers"), "sweeping.Sweeps"),
    "confirm": "confirming.Confirms",
    "differences": "differences.TellsDifferences",
    "inspect": "inspecting.InspectsTarget",
    "note": "notes.KeepsNotes",
    "rejects": "rejects.KeepsRejects",
}
"""Methods of a publisher, and the class that each belongs to."""


@dataclass(frozen=True)
class Publish:
    """One day on its way into the sink.

    :param schema: of the staged files' rows.
    :param stage: path or URL of the stage's root; the manifest's paths are relative to it.
    :param labels: for people: dag, run, task; no secret.
    :param on_empty: what an answer without rows means. The driver has asked the ledger; a sink that knows better what
        is visible asks that, too.
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


class Sink(Options, ABC):
    """Base of every sink. Subclasses set ``name`` to their file's name.

    ``connection_types`` has the options that name an Airflow connection, each with the types that it may be of.
    """

    name: ClassVar[str]
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {}

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
        """Say what is wrong with these options and connections together; [] when nothing is. No network."""
        return []

    def stage_root(self, connections: Connections) -> str | None:
        """Return the path or URL under which the stage should lie, and stays; None when the sink does not care.

        A stage that the sink does not care for is deleted once its day is published.
        """
        return None

    def dataset(self, connections: Connections) -> Dataset:
        """Return what lineage calls the target; by default as its asset is called. No network, no secret."""
        return Dataset.of(self.asset_uri)

    @property
    def tables(self) -> Tables | None:
        """Which table a row belongs to, if the stage keeps the rows of each apart; None where they share one."""
        return None

    def capability(self, kind: type[C]) -> C | None:
        """Return what these options can do beside the contract (:mod:`.capabilities`); None if they cannot."""
        return self if isinstance(self, kind) else None

    @abstractmethod
    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return what publishes the days of one stream. Driver, executor and Airflow task; no network yet.

        The publisher's module is imported here: a DAG file does without it.
        """


class Publisher(Closable, ABC):
    """What publishes the days of one stream into one sink.

    The driver opens one for all days of a job and calls it from several threads at once. Each executor task opens its
    own. Its further bases, from :mod:`.capabilities`, say what it can do beside this.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a method of a capability that the class does not name: the driver would never call it."""
        super().__init_subclass__(**options)
        for name, capability in _OF_CAPABILITIES.items():
            if name in vars(cls) and not any(name in vars(base) for base in cls.__mro__[1:]):
                room = "airflow_provider_connect.capabilities"
                raise TypeError(f"{cls.__name__} defines {name}(): derive it from {room}.{capability}, too")

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """The stream's ledger; of a target that does not exist yet, an empty one."""

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what would fail the publish, before the first request to the source. Driver, once a job.

        :param days: what the job is about to publish.
        :param kind: what the source's rows are.
        :return: problems for a person to mend, each with what to do; [] when there are none.
        """
        return []

    @abstractmethod
    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Make the day and its ledger row visible in one step. Driver, once an attempt; safe to repeat.

        A publish whose intent the ledger has already is answered from the ledger, without a change. Any other is
        committed only while the ledger still says what the manifest has ``seen``, compared in the very step that
        commits (:mod:`.publishing`). An error whose outcome is unknown is decided by reading the ledger again.

        :param token: what :meth:`.StagesByExecutors.begin` returned; None without that capability.
        :raises OvertakenError: somebody else has published the day since this attempt began to poll.
        :raises SupersededError: a snapshot of a later day is published.
        :raises RetriableError: the sink is away, or others kept winning the race.
        :raises DataError: a column's type conflicts with the target's.
        """
