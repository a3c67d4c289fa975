"""The ledger of a Delta table: transactions in its log, with details from its history."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sink import DefinitionInForce, Ledger, LedgerRow, StreamKey
from airflow_provider_connect.sinks._delta import definitions
from airflow_provider_connect.sinks._delta.app_transactions import (
    CONFIRMED_FIELDS,
    HALF_BITS,
    MICROSECOND,
    UNIX_EPOCH,
    app_id,
    app_prefix,
    attempt_id,
    check_version,
    deleted_file_id,
    kept_out_counts,
    late_counts,
    recorded_spans,
)
from airflow_provider_connect.sinks._delta.erase_list import read_erase_list
from airflow_provider_connect.sinks._delta.log import make_durable, open_table, read_transactions, translate_log_errors
from airflow_provider_connect.sinks._delta.table import OWNER_PROPERTY
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

_EPOCH = dt.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(eq=False)
class LedgerView:
    """One stream's ledger in one version of the table."""

    folder: Folder
    table: DeltaTable | None
    key: StreamKey

    def transaction(self, day: dt.date, suffix: str = "") -> int | None:
        """Return the version of a day's transaction, or None.

        :param suffix: end of its id.
        """
        return self.app_transactions.get(app_id(self.key, day) + suffix)

    def polled_at(self, day: dt.date) -> dt.datetime | None:
        """Return when a day's newest answer was polled (UTC), or None."""
        microseconds = self.transaction(day, "/polled")
        return UNIX_EPOCH + MICROSECOND * microseconds if microseconds else None

    def checks(self, day: dt.date, generation: int) -> int:
        """Return how often a day's generation was confirmed. 0 for an older generation."""
        checked_generation, checks = divmod(self.transaction(day, "/checks") or 0, check_version(1, 0))
        return checks if checked_generation == generation else 0

    def answer(self, day: dt.date, generation: int) -> str | None:
        """Return the digest of the answer that a day's newest generation published, or None."""
        halves = [self.transaction(day, f"/answer/{half}") for half in ("high", "low")]
        if self.transaction(day, "/answer") != generation or None in halves:
            return None
        return "".join(f"{half % (1 << HALF_BITS):016x}" for half in halves if half is not None)

    def attempt_generation(self, attempt: str) -> int | None:
        """Return the generation that an attempt published, or :data:`.SWEPT` if a sweep has closed it."""
        return self.app_transactions.get(attempt_id(self.key, attempt))

    def deleted_file_number(self, attempt: str) -> int | None:
        """Return the number of an attempt's published file of deleted rows, 0 if it has none, None if unknown."""
        return self.app_transactions.get(deleted_file_id(self.key, attempt))

    @cached_property
    def app_transactions(self) -> dict[str, int]:
        """The stream's transactions: id to version."""
        if self.table is None:
            return {}
        return read_transactions(self.folder, self.table.version(), app_prefix(self.key))

    def predecessor_day(self, day: dt.date, kind: SourceKind, *, replaces_whole: bool) -> dt.date:
        """Return the day whose newest publish the next publish of ``day`` must follow.

        For a snapshot of the whole table and a day's first increment: the stream's newest day.
        """
        if kind == "increment" and self.transaction(day) is None:
            return max(self.spans, key=lambda date: self.spans[date].number, default=day)
        return max(self.days(), default=day) if replaces_whole else day

    @cached_property
    def spans(self) -> dict[dt.date, Span]:
        """The span that each day's increment read."""
        return recorded_spans(self.app_transactions, app_prefix(self.key))

    @property
    def last_snapshot_day(self) -> dt.date:
        """Day of the last snapshot of the whole table, or the earliest date. Earlier days may be empty."""
        snapshot_date = self.app_transactions.get(f"{app_prefix(self.key)}snapshot")
        return dt.date.min if snapshot_date is None else dt.date.fromisoformat(str(snapshot_date))

    def newest(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return the ledger row of a day's newest publish, or None.

        Reads only transactions, since the history takes a request for every commit.

        :param run: copied into the row if this run made or last confirmed that publish.
        """
        generation = self.transaction(day)
        if generation is None:
            return None
        checks = self.checks(day, generation)
        if checks:
            is_this_run = self.transaction(day, f"/check/{run}") == check_version(generation, checks)
        else:
            is_this_run = self.transaction(day, f"/run/{run}") == generation
        return LedgerRow(
            day=day,
            generation=generation,
            checks=checks,
            token="",
            rows=self.transaction(day, "/rows") or 0,
            run=run if is_this_run else None,
            clear_number=self.transaction(day, "/clear") or 0,
            answer=self.answer(day, generation),
            counts=kept_out_counts(self.transaction, day),
            span=self.spans.get(day),
            definition=definitions.definition_of_day(self.app_transactions, app_id(self.key, day)),
        )

    def row(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return :meth:`newest`, with details if the log's history still has the commit."""
        newest = self.newest(day, run)
        if newest is None or (row := self._from_history(day, newest.generation)) is None:
            return newest
        row = row.model_copy(update={"definition": newest.definition})  # an erase records none
        if not newest.checks:
            return row
        confirmation = self._confirmation(day, checks=newest.checks, generation=newest.generation)
        return row.model_copy(update=confirmation or newest.model_dump(include={*CONFIRMED_FIELDS}))

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row that an intent published or confirmed, or None."""
        generation = self.transaction(day, f"/token/{token}")
        if generation is None:
            return None
        newest = self.newest(day)
        assert newest is not None
        # Transactions hold the rows of the newest publish only. Older ones are lost with their commit's log entry.
        row = self._from_history(day, generation) or newest.model_copy(update={"generation": generation})
        confirmation = self._confirmation(day, token=token, generation=generation)
        return row.model_copy(update=confirmation or {"token": token})

    def _from_history(self, day: dt.date, generation: int) -> LedgerRow | None:
        for commit in self._commits_of(day, generation=generation):
            if "connect.counts" in commit:
                fields = _fields(commit, LedgerRow.model_fields)
                parsed = {name: json.loads(fields[name]) for name in ("counts", "span") if name in fields}
                return LedgerRow.model_validate(fields | parsed)
        return None

    def _confirmation(self, day: dt.date, **metadata: Any) -> dict[str, Any] | None:
        for commit in self._commits_of(day, **metadata):
            if "connect.counts" not in commit:
                row = LedgerRow.model_validate(_fields(commit, ("day", "generation", *CONFIRMED_FIELDS)) | {"rows": 0})
                return row.model_dump(include={*CONFIRMED_FIELDS})
        return None

    def _commits_of(self, day: dt.date, **metadata: Any) -> Iterator[dict[str, Any]]:
        expected = {"connector": self.key.connector, "stream": self.key.stream, "day": day, **metadata}
        for commit in self.commits:
            if all(commit.get(f"connect.{name}") == str(value) for name, value in expected.items()):
                yield commit

    def days(self) -> DaySet:
        """Return all published days, also empty ones."""
        if not self.belongs_to_stream:
            return DaySet()
        names = (app.removeprefix(app_prefix(self.key)) for app in self.app_transactions)
        return DaySet.from_dates(dt.date.fromisoformat(name) for name in names if _DATE.fullmatch(name))

    @property
    def belongs_to_stream(self) -> bool:
        """Whether the table exists and belongs to this stream."""
        return self.table is not None and self.table.metadata().configuration.get(OWNER_PROPERTY) == str(self.key)

    @cached_property
    def commits(self) -> list[dict[str, Any]]:
        """Metadata of the log's commits, newest first."""
        if self.table is None:
            return []
        with translate_log_errors(self.table):
            return self.table.history()

    @cached_property
    def files(self) -> list[tuple[dt.date, str, int | None]]:
        """Day, path and rows of each file. Rows are None if the writer gave none.

        Leaves out other writers' files without a day, or with a day outside Python's calendar.
        """
        return [(day, action["path"], action["num_records"]) for day, action in self._dated_actions()]

    def file_sizes(self) -> dict[str, int]:
        """Return the bytes of each file of :attr:`files`, by path."""
        return {action["path"]: action["size_bytes"] for _, action in self._dated_actions()}

    def file_statistics(self, columns: Iterable[str]) -> list[tuple[dt.date, str, dict[str, Any]]]:
        """Return each file of :attr:`files` with the log's bounds ``min.<column>`` and ``max.<column>``."""
        # The log's "min.a.b" may be of a struct.
        names = [f"{bound}.{column}" for column in columns if "." not in column for bound in ("min", "max")]
        return [
            (day, action["path"], {name: action.get(name) for name in names})
            for day, action in self._dated_actions(names)
        ]

    def _dated_actions(self, names: Iterable[str] = ()) -> list[tuple[dt.date, dict[str, Any]]]:
        """Return day and log entry of each file.

        :param names: further columns of the entries.
        """
        if self.table is None:
            return []
        import pyarrow as pa

        actions = self._add_actions
        ordinals = actions["partition.day"].cast(pa.int32()).to_pylist()
        present = [name for name in ("path", "num_records", "size_bytes", *names) if name in actions.column_names]
        return [
            (dt.date.fromordinal(ordinal + _EPOCH), action)
            for ordinal, action in zip(ordinals, actions.select(present).to_pylist(), strict=True)
            if ordinal is not None and 0 < ordinal + _EPOCH <= dt.date.max.toordinal()
        ]

    @cached_property
    def _add_actions(self) -> pa.Table:
        import pyarrow as pa

        assert self.table is not None
        with translate_log_errors(self.table):
            return pa.table(self.table.get_add_actions(flatten=True))

    @cached_property
    def column_types(self) -> dict[str, pa.DataType]:
        """Arrow types of the table's columns by name."""
        import pyarrow as pa

        assert self.table is not None
        return {field.name: field.type for field in pa.schema(self.table.schema().to_arrow())}


def _fields(commit: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    values = {name: commit.get(f"connect.{name}") for name in names}
    return {name: value for name, value in values.items() if value not in (None, "None")}


@dataclass(frozen=True)
class DeltaLedger(Ledger):
    """One stream's ledger. Each call reads the log again."""

    options: DeltaOptions
    key: StreamKey

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the ledger row of a day's newest publish. Lacks token and digest if the log has lost the commit."""
        return self.view().row(day)

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return the newest ledger row of each day, all from one version of the table."""
        view = self.view()
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        return [
            row.model_copy(
                update={
                    "polled_at": view.polled_at(day),
                    "counts": row.counts | late_counts(view.transaction, day),
                }
            )
            for day in days
            if (row := view.newest(day)) is not None
        ]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that the next publish of a day must follow, without the history's details."""
        view = self.view()
        row = view.newest(view.predecessor_day(day, kind, replaces_whole=self.options.replaces_whole(kind)))
        return row and row.model_copy(update={"polled_at": view.polled_at(row.day)})

    def definition_in_force(self) -> DefinitionInForce | None:
        """Return the definition of the stream's newest publish."""
        return definitions.definition_in_force(self.view().app_transactions, app_prefix(self.key))

    def notes(self) -> list[LedgerNote]:
        """Return the notes beside the table, if the table belongs to this stream."""
        view = self.view()
        return definitions.read_notes(view.folder) if view.belongs_to_stream else []

    def erased(self) -> EraseList:
        """Return the erase list of the table."""
        view = self.view()
        return read_erase_list(view.folder, view.table)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row that an intent published, even if a newer publish followed.

        Flushes the log: the publisher may have been killed before its flush.
        """
        view = self.view()
        row = view.published(day, token)
        if row is not None and view.table is not None:
            make_durable(view.folder, view.table)
        return row

    def days(self) -> DaySet:
        """Return all published days."""
        return self.view().days()

    def view(self) -> LedgerView:
        """Return the ledger in the newest version of its table."""
        path = self.options.ledger_path
        return LedgerView(Folder(path), open_table(path), self.key)
