"""What only some publishers can do, asked with ``isinstance``; and sinks: ``sink.capability(StagesMarks)``."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.stage.erasing import Erasure, ShapingDigest, unshaped
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.differences import Differences


class StagesByExecutors(ABC):
    """A publisher whose rows executors send between ``begin`` and ``commit``: staged files do not become the target."""

    @abstractmethod
    def begin(self, publish: Publish) -> Any:
        """Prepare one publish. The token is pickled for every :meth:`put`. Driver, once an attempt."""

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Deal a day's files out, one :meth:`put` for each share: each file alone by default. Driver."""
        return [(file,) for file in files]

    @abstractmethod
    def put(self, token: Any, stage: str, share: tuple[StagedFile, ...]) -> Any:
        """Send one share of the stage; the receipt goes to ``commit``. Executor; may run twice, also at once."""

    @abstractmethod
    def abort(self, publish: Publish, token: Any) -> None:
        """Release what :meth:`begin` took. Driver; never touches what a commit may have published."""


class Confirms(ABC):
    """A publisher of which an unchanged day is not published again."""

    @abstractmethod
    def confirm(self, publish: Publish) -> LedgerRow:
        """Make the day's row what :func:`.publishing.confirmed` returns, as a commit would. Driver; safe to repeat."""


class TellsDifferences(ABC):
    """A publisher that compares a staged day with the published one that it takes the place of."""

    @abstractmethod
    def differences(self, publish: Publish) -> Differences | None:
        """Count against the generation ``seen``; None if that is not known. Driver, before the publish."""


class CommitCountsDifferences:
    """A publisher whose commit puts these counts into the ledger row: its rows are comparable only in the sink."""


class Erases(ABC):
    """A publisher that keeps an erase list and takes the rows of its values out of the target."""

    @abstractmethod
    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would take out, by day. Changes nothing; no job is running."""

    @abstractmethod
    def erase(self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = unshaped) -> Erasure:
        """Put values on the erase list, then take their rows out of every day that has some. No job need stand still.

        Safe to repeat, also after a kill: values that are on the list already are searched for again.

        :param shaping: digests of the shapes that made the values, which the list keeps.
        :raises ConfigError: the target has no such column, or its list is full, of another column or of other shapes.
        :raises RetriableError: the sink is away, or others kept winning the race: the rest is to be erased yet.
        """

    def copies(self) -> list[str]:
        """Return the places whose rows :meth:`erase` does not delete, such as rejects, and how to clear each."""
        return []


class KeepsRejects(ABC):
    """A publisher whose sink keeps the rejects of published days."""

    @abstractmethod
    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield what was set aside of each published day, oldest first; of so many rejects a day the record itself."""


class Sweeps(ABC):
    """A publisher of which an attempt that dies leaves something behind in the sink."""

    @abstractmethod
    def sweep(self) -> int:
        """Delete what attempts left that are long dead; return how many files. Driver, once a job, last."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Return the names of what :meth:`sweep` would delete now. Changes nothing."""


class KeepsNotes(ABC):
    """A publisher whose ledger returns notes: definitions of the stream, alarms and their answers."""

    @abstractmethod
    def note(self, note: LedgerNote) -> None:
        """Keep a note, for :meth:`.Ledger.notes`; one that exists is not changed. After ``preflight``, repeatable."""


class InspectsTarget(ABC):
    """A publisher that can tell before the first day is loaded what would fail."""

    @abstractmethod
    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what ``preflight`` finds, as far as that is known without making anything. For a person."""


class StagesMarks(ABC):
    """A sink whose staged files become the target's own, so that they need the columns of :mod:`.stage.deleted`."""

    @abstractmethod
    def stages_marks(self, kind: SourceKind) -> bool:
        """Tell whether staged rows of a kind must have these columns, which mark rows that a snapshot has no more."""
