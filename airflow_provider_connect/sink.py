"""What a sink is: the contract that every file in ``sinks/`` fulfils.

A sink is a pydantic model: its options, pure data that a DAG file imports. :meth:`Sink.open` makes a
:class:`Publisher` of them, which does the work for one stream. The life of one day::

    driver         preflight(schema, days, kind)     once a job, before the first request to the source
    driver         ledger                            what was published already; also in the Airflow task
    driver         differences(publish)              of a day that replaces an earlier publish  (if the sink can tell)
    driver         begin(publish)                    fence, staging table, streams          (if the sink needs it)
    executor       put(token, stage, share)          any number of times, repeatable        (if the sink needs it)
    driver         commit(publish, token, receipts)  data and ledger row in one step
    driver         confirm(publish)                  instead of these three, if the answer is the published one
    driver         abort(publish, token)             after any error since begin            (if the sink needs it)
    driver         sweep()                           once a job, last: what dead attempts left

What is published comes from the stage alone: a retry of a publish asks the source for nothing.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.ledger import DefinitionInForce, Intent, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.stage.differences import Differences
from airflow_provider_connect.stage.erasing import Erasure, ShapingDigest, unshaped
from airflow_provider_connect.stage.manifest import Manifest, StagedFile
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
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

Connections = dict[str, Connection]
OnEmpty = Literal["fail", "accept", "never"]
"""What an answer without rows means: a mistake where rows are published, that they are gone, or always a mistake."""


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

    def stages_marks(self, kind: SourceKind) -> bool:
        """Tell whether staged rows must have the columns of :mod:`.stage.deleted`: staged files are the sink's own."""
        return False

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

    @abstractmethod
    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return what publishes the days of one stream. Driver, executor and Airflow task; no network yet.

        The publisher's module is imported here: a DAG file does without it.
        """


class Publisher(Closable, ABC):
    """What publishes the days of one stream into one sink.

    The driver opens one for all days of a job and calls it from several threads at once. Each executor task opens its
    own. Sinks define what they need: only ``ledger`` and ``commit`` have no default.
    """

    commit_counts_differences: ClassVar[bool] = False
    """Whether :meth:`commit` puts the counts of :meth:`differences` into the ledger row by itself, because the sink can
    compare rows only where they are staged."""

    @property
    @abstractmethod
    def ledger(self) -> Ledger:
        """The stream's ledger; of a target that does not exist yet, an empty one."""

    @property
    @final
    def can_note(self) -> bool:
        """True if the sink defines :meth:`note`."""
        return type(self).note is not Publisher.note

    def note(self, note: LedgerNote) -> None:
        """Keep a note beside the stream's days. Driver and command line, after :meth:`preflight`. Safe to repeat.

        :meth:`.Ledger.notes` returns the note from then on. If the note exists already, it is not changed.

        :raises RetriableError: the sink is away.
        """
        raise NotImplementedError

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what would fail the publish, before the first request to the source. Driver, once a job.

        :param days: what the job is about to publish.
        :param kind: what the source's rows are.
        :return: problems for a person to mend, each with what to do; [] when there are none.
        """
        return []

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str] | None:
        """Find what :meth:`preflight` finds, as far as that is known without making anything. For a person.

        :return: problems, [] when none are seen; None if the sink cannot tell.
        """
        return None

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects] | None:
        """Yield what was set aside of each published day from ``first`` to ``last``, the oldest first. For a person.

        Of a day's newest answer alone; a day of which nothing was set aside is left out. Reads the sink anew. None if
        the sink keeps no rejects. The record itself is wanted of the first ``records`` of each day alone.
        """
        return None

    def differences(self, publish: Publish) -> Differences | None:
        """Count how a day differs from the earlier publish that it takes the place of; None if that is not known.

        Driver, before :meth:`begin`. The counts go with the manifest into report and ledger. They must be about the
        generation that the manifest has ``seen``: the commit passes only while that one is published. An error loses
        the counts alone.
        """
        return None

    def begin(self, publish: Publish) -> Any:
        """Prepare one publish; what is returned goes, pickled, to every :meth:`put`. Driver, once an attempt."""
        return None

    @property
    @final
    def has_put(self) -> bool:
        """Whether executors have anything to do: whether the sink defines :meth:`put`."""
        return type(self).put is not Publisher.put

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Deal a day's files out, one :meth:`put` for each share: each file alone by default. Driver."""
        return [(file,) for file in files]

    def put(self, token: Any, stage: str, share: tuple[StagedFile, ...]) -> Any:
        """Send one share; the receipt goes to :meth:`commit`. Executor; may run more than once, also beside itself.

        :param stage: path or URL of the stage's root, which the files' paths are relative to.
        """
        return None

    @abstractmethod
    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Make the day and its ledger row visible in one step. Driver, once an attempt; safe to repeat.

        A publish whose intent the ledger has already is answered from the ledger, without a change. Any other is
        committed only while the ledger still says what the manifest has ``seen``, compared in the very step that
        commits (:mod:`.publishing`). An error whose outcome is unknown is decided by reading the ledger again.

        :raises OvertakenError: somebody else has published the day since this attempt began to poll.
        :raises SupersededError: a snapshot of a later day is published.
        :raises RetriableError: the sink is away, or others kept winning the race.
        :raises DataError: a column's type conflicts with the target's.
        """

    @property
    @final
    def can_confirm(self) -> bool:
        """Whether the sink can note that a day is unchanged: whether it defines :meth:`confirm`."""
        return type(self).confirm is not Publisher.confirm

    def confirm(self, publish: Publish) -> LedgerRow:
        """Note that the published answer was given once more. Driver, once an attempt; safe to repeat.

        Called instead of :meth:`begin`, :meth:`put` and :meth:`commit`. It writes no data and counts no generation: in
        one step the day's row becomes what :func:`.publishing.confirmed` returns, on the conditions of a commit. An
        intent that the ledger has already is answered from the ledger, and an error whose outcome is unknown is decided
        by reading it again. The staged files are not wanted any more: a sink whose stage stays deletes them, at the
        latest in its sweep. With a sink that does not define it, an unchanged day is published again.

        :raises OvertakenError: somebody else has published or confirmed the day since this attempt began to poll.
        :raises RetriableError: the sink is away, or others kept winning the race.
        """
        raise NotImplementedError

    @property
    @final
    def can_erase(self) -> bool:
        """Whether the sink can take rows out of what is published: whether it defines :meth:`erase`."""
        return type(self).erase is not Publisher.erase

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would take out, by day. Changes nothing; no job is running.

        :raises ConfigError: the target has no such column.
        """
        raise NotImplementedError

    def erase(self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = unshaped) -> Erasure:
        """Put values on the erase list, then take their rows out of every day that has some. No job need stand still.

        Safe to repeat, also after a kill: values that are on the list already are searched for again.

        :param values: texts, as the target has them.
        :param shaping: digests of the shapes that made the values, which the list keeps.
        :raises ConfigError: the target has no such column, or its list is full, of another column or of other shapes.
        :raises RetriableError: the sink is away, or others kept winning the race: the rest is to be erased yet.
        """
        raise NotImplementedError

    def copies(self) -> list[str]:
        """Return the places whose rows :meth:`erase` does not delete, such as rejects, and how to clear each."""
        return []

    def abort(self, publish: Publish, token: Any) -> None:
        """Release what :meth:`begin` took. Driver; never touches what a commit may have published."""

    def sweep(self) -> int:
        """Delete what attempts left that are long dead; return how many files. Driver, once a job, last."""
        return 0

    def leftovers(self) -> list[str] | None:
        """Return the names of what :meth:`sweep` would delete now; None if the sink cannot list it. Changes nothing."""
        return None
