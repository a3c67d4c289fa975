"""Capabilities of some publishers, tested with ``isinstance``, and of sinks: ``sink.capability(StagesMarks)``."""

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
    """A publisher whose executors send the staged rows to the sink between ``begin`` and ``commit``."""

    @abstractmethod
    def begin(self, publish: Publish) -> Any:
        """Prepare one publish. Runs on the driver, once an attempt. The token is pickled for every :meth:`put`."""

    def shares(self, files: Sequence[StagedFile]) -> list[tuple[StagedFile, ...]]:
        """Split a day's files into shares, one for each :meth:`put`. Default: one file a share. Runs on the driver."""
        return [(file,) for file in files]

    @abstractmethod
    def put(self, token: Any, stage: str, share: tuple[StagedFile, ...]) -> Any:
        """Send one share and return a receipt for ``commit``. Runs on an executor, perhaps twice or concurrently."""

    @abstractmethod
    def abort(self, publish: Publish, token: Any) -> None:
        """Release what :meth:`begin` holds, on the driver. Never touches data that a commit may have published."""


class Confirms(ABC):
    """A publisher that can record that a day is unchanged, without publishing it again."""

    @abstractmethod
    def confirm(self, publish: Publish) -> LedgerRow:
        """Replace the day's row by :func:`.publishing.confirmed_row`, on the driver. Safe to repeat."""


class TellsDifferences(ABC):
    """A publisher that can compare a staged day with the published day that it will replace."""

    @abstractmethod
    def differences(self, publish: Publish) -> Differences | None:
        """Count the rows that the staged day adds, changes and lacks. None if unknown.

        Runs on the driver, before the publish.
        """


class CommitCountsDifferences:
    """A publisher whose commit writes the differences into the ledger row: only the sink can compare its rows."""


class Erases(ABC):
    """A publisher that keeps an erase list of people's ids, and deletes their rows from the target."""

    @abstractmethod
    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Return the number of rows that :meth:`erase` would delete, by day. Changes nothing and starts no job."""

    @abstractmethod
    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        """Add values to the erase list, then delete their rows from all days. Jobs may run meanwhile.

        Safe to repeat, also after a kill: listed values are searched again.

        :param shaping: digests of the shapes that made the values, for the list.
        :raises ConfigError: the target has no such column, or its list is full or belongs to another column or other
            shapes.
        :raises RetriableError: the sink is unreachable, or other writers committed first several times. Rows remain.
        """

    def copies(self) -> list[str]:
        """Describe the places whose rows :meth:`erase` does not delete, such as rejects, with remedies."""
        return []


class KeepsRejects(ABC):
    """A publisher whose sink keeps the rejected records of published days."""

    @abstractmethod
    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield the rejects of each published day from ``first`` to ``last``, oldest day first.

        :param records: largest number of a day's records that come with their content.
        """


class Sweeps(ABC):
    """A publisher whose dead attempts leave files or tables in the sink."""

    @abstractmethod
    def sweep(self) -> int:
        """Delete leftovers of long-dead attempts, on the driver, last in each job. Returns their number."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """Return the names of the files or tables that :meth:`sweep` would delete now. Changes nothing."""


class KeepsNotes(ABC):
    """A publisher whose ledger keeps notes: definitions of the stream, alarms and their answers."""

    @abstractmethod
    def note(self, note: LedgerNote) -> None:
        """Add a note for :meth:`.Ledger.notes`, after ``preflight``. An existing note stays. Safe to repeat."""


class InspectsTarget(ABC):
    """A publisher that can check the target for a person, before the first load."""

    @abstractmethod
    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return the problems that ``preflight`` would find. Creates nothing."""


class RewrittenRows(NamedTuple):
    """Number of a table's rows before and after a rewrite by key."""

    before: int
    after: int


class RewritesByKey(ABC):
    """A publisher that merges by key, and can write a table by key that another write mode has filled."""

    @abstractmethod
    def rewrite_by_key(self) -> RewrittenRows:
        """Keep the newest row of each key, so that later publishes can merge. Safe to repeat."""


class TestsConnection(ABC):
    """A publisher that can find out in seconds whether its server answers, although its other calls wait longer."""

    @abstractmethod
    def test_connection(self, max_seconds: float) -> None:
        """Return if the server answers. Runs in the Airflow task, before a stream's first load.

        :raises ConfigError: the server refuses the connection's user or protocol.
        :raises RetriableError: no answer within ``max_seconds``.
        """


class StagesMarks(ABC):
    """A sink whose staged files become the target's, and so need the columns of :mod:`.stage.soft_deletes`."""

    @abstractmethod
    def stages_marks(self, kind: SourceKind) -> bool:
        """Return True if staged rows of ``kind`` need the columns that mark rows which a snapshot lacks."""
