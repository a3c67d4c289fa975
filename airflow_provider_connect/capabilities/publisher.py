"""Capabilities of publishers and sinks."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.stage.erase_list import Erasure, ShapingDigest, no_shaping
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.stage.differences import Differences


class StagesByExecutors(ABC):
    """Publisher whose executors send the staged rows to the sink between ``begin`` and ``commit``."""

    @abstractmethod
    def begin(self, publish: Publish) -> Any:
        """Prepare one publish. Runs on the driver, once an attempt. The token is pickled."""

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Split a day's files into shares, one for each :meth:`put`. Runs on the driver. Default: one file a share."""
        return [(file,) for file in files]

    @abstractmethod
    def put(self, token: Any, stage: str, share: tuple[StagedFile, ...]) -> Any:
        """Send one share and return a receipt for ``commit``. Runs on an executor, perhaps twice or concurrently."""

    @abstractmethod
    def abort(self, publish: Publish, token: Any) -> None:
        """Release what :meth:`begin` holds, on the driver. Never touches data that a commit may have published."""


class Confirms(ABC):
    """Publisher that can record that a day is unchanged."""

    @abstractmethod
    def confirm(self, publish: Publish) -> LedgerRow:
        """Replace the day's row by :func:`.publishing.confirmed_row`, on the driver. Safe to repeat."""


class TellsDifferences(ABC):
    """Publisher that can compare a staged day with the published day that it will replace."""

    @abstractmethod
    def differences(self, publish: Publish) -> Differences | None:
        """Count the rows that the staged day adds, changes and lacks, None if unknown.

        Runs on the driver, before the publish.
        """


class CommitCountsDifferences:
    """Publisher whose commit writes the differences into the ledger row."""


class Erases(ABC):
    """Publisher that keeps an erase list of people's ids, and deletes their rows from the target."""

    @abstractmethod
    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Return the number of rows that :meth:`erase` would delete, by day. Changes nothing."""

    @abstractmethod
    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        """Add values to the erase list, then delete their rows from all days.

        Safe to repeat, also after a kill.

        :param shaping: digests of the shapes that made the values.
        :raises ConfigError: the target has no such column, or its list is full or belongs to another column or other
            shapes.
        :raises RetriableError: the sink is unreachable, or other writers committed first.
        """

    def copies(self) -> list[str]:
        """Describe the places whose rows :meth:`erase` does not delete, with remedies."""
        return []


class KeepsRejects(ABC):
    """Publisher whose sink keeps the rejected records of published days."""

    @abstractmethod
    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield the rejects of each published day from ``first`` to ``last``, oldest day first.

        :param records: most records of a day with their content.
        """


class Sweeps(ABC):
    """Publisher whose dead attempts leave files or tables in the sink."""

    @abstractmethod
    def sweep(self) -> int:
        """Delete leftovers of long-dead attempts, on the driver. Returns their number."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Return the names of the leftovers that :meth:`sweep` would delete now."""


class KeepsNotes(ABC):
    """Publisher whose ledger keeps notes."""

    @abstractmethod
    def note(self, note: LedgerNote) -> None:
        """Add a note for :meth:`.Ledger.notes` or :meth:`.Ledger.position_note`, after ``preflight``.

        An existing note stays. Safe to repeat.
        """


class InspectsTarget(ABC):
    """Publisher that can check the target before the first load."""

    @abstractmethod
    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return the problems that ``preflight`` would find. Creates nothing."""


class RewrittenRows(NamedTuple):
    """Number of a table's rows before and after a rewrite by key."""

    before: int
    after: int


class RewritesByKey(ABC):
    """Publisher that merges by key, and can rewrite by key a table that another write mode has filled."""

    @abstractmethod
    def rewrite_by_key(self) -> RewrittenRows:
        """Keep the newest row of each key. Safe to repeat."""


class TestsConnection(ABC):
    """Publisher that can find out in seconds whether its server answers."""

    @abstractmethod
    def test_connection(self, max_seconds: float) -> None:
        """Return if the server answers. Runs in the Airflow task.

        :raises ConfigError: the server refuses user or protocol.
        :raises RetriableError: no answer within ``max_seconds``.
        """


class StagesMarks(ABC):
    """Sink whose staged files become the target's, and need the columns of :mod:`.stage.soft_deletes`."""

    @abstractmethod
    def stages_marks(self, kind: SourceKind) -> bool:
        """Return True if staged rows of ``kind`` need the mark columns."""
