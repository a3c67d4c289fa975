"""The ledger of a Delta table: application transactions in its log, with details from its history."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect import __version__
from airflow_provider_connect.sink import Ledger, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._delta.log import log_errors, open_table, secure
from airflow_provider_connect.sinks._delta.table import OWNER
from airflow_provider_connect.sinks._delta.transactions import recorded_transactions
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, DaySet, SourceKind

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

_EPOCH = dt.date(1970, 1, 1).toordinal()
_UNIX, _MICROSECOND = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.timedelta(microseconds=1)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")

SWEPT = 0
"""Recorded as an attempt's generation before a sweep deletes its files: real generations start at 1."""


def app_prefix(key: StreamKey) -> str:
    """Return the prefix of all application ids of a stream."""
    return f"connect/{key}/"


def app_id(key: StreamKey, day: dt.date) -> str:
    """Return the application id that records a day's generation."""
    return f"{app_prefix(key)}{day}"


def attempt_id(key: StreamKey, attempt: str) -> str:
    """Return the application id that records an attempt's fate: its generation, or :data:`SWEPT`."""
    return f"{app_prefix(key)}attempt/{attempt}"


def transactions(row: LedgerRow, key: StreamKey) -> dict[str, int]:
    """Return the application transactions that record ``row``: id to version."""
    app = app_id(key, row.day)
    return {
        app: row.generation,
        f"{app}/rows": row.rows,
        f"{app}/clear": row.clear_number,
        f"{app}/polled": 0 if row.polled_at is None else (row.polled_at - _UNIX) // _MICROSECOND,
        f"{app}/run/{row.run}": row.generation,
        f"{app}/token/{row.token}": row.generation,
        attempt_id(key, row.attempt or ""): row.generation,
    }


def snapshot_transaction(row: LedgerRow, key: StreamKey) -> dict[str, int]:
    """Return the application transaction of a snapshot that replaces the whole table, beside its day's own.

    All such commits write it, so Delta lets only one of two pass, even if they are of different days.
    """
    return {f"{app_prefix(key)}snapshot": int(f"{row.day:%Y%m%d}")}


def details(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return the commit's metadata: the row, for people, and for :meth:`LedgerView.row` while the log has it."""
    values = row.model_dump(mode="json") | {
        "connector": publish.key.connector,
        "stream": publish.key.stream,
        "package": __version__,
    }
    values["counts"] = json.dumps(row.counts)
    flat = {f"connect.{name}": str(value) for name, value in values.items()}
    return flat | {f"connect.label.{name}": value for name, value in publish.labels.items()}


@dataclass(eq=False)
class LedgerView:
    """The ledger of one stream in one version of the table."""

    folder: Folder
    table: DeltaTable | None
    key: StreamKey

    def transaction(self, day: dt.date, what: str = "") -> int | None:
        """Return the version of a day's application transaction, None if there is none."""
        return self.recorded.get(app_id(self.key, day) + what)

    def polled_at(self, day: dt.date) -> dt.datetime | None:
        """Return when the newest publish of a day was polled, as its transaction records it."""
        microseconds = self.transaction(day, "/polled")
        return _UNIX + _MICROSECOND * microseconds if microseconds else None

    def attempt(self, attempt: str) -> int | None:
        """Return the generation that an attempt published, :data:`SWEPT`, or None if neither is recorded."""
        return self.recorded.get(attempt_id(self.key, attempt))

    @cached_property
    def recorded(self) -> dict[str, int]:
        """Every application transaction of this stream."""
        if self.table is None:
            return {}
        return recorded_transactions(self.folder, self.table.version(), app_prefix(self.key))

    def before(self, day: dt.date, *, replaces_whole: bool) -> dt.date:
        """Return the day whose newest publish the next one of ``day`` must follow.

        That is ``day`` itself, or the stream's newest day where a snapshot replaces the whole table.
        """
        return max(self.days(), default=day) if replaces_whole else day

    @property
    def replaced_until(self) -> dt.date:
        """The day of the last snapshot that replaced the whole table: no earlier day need have rows any more."""
        written = self.recorded.get(f"{app_prefix(self.key)}snapshot")
        return dt.date.min if written is None else dt.date.fromisoformat(str(written))

    def newest(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return a day's newest publish as the transactions record it; None if there is none.

        They outlive the log's clean-up, and need no history, which takes a request for every commit.

        :param run: named in the row if it made that publish.
        """
        generation = self.transaction(day)
        if generation is None:
            return None
        is_this_run = run is not None and self.transaction(day, f"/run/{run}") == generation
        return LedgerRow(
            day=day,
            generation=generation,
            token="",
            rows=self.transaction(day, "/rows") or 0,
            run=run if is_this_run else None,
            clear_number=self.transaction(day, "/clear") or 0,
        )

    def row(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return a day's newest publish with its details, None if there is none; ``run`` as in :meth:`newest`."""
        newest = self.newest(day, run)
        return None if newest is None else self._from_history(day, newest.generation) or newest

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the publish of one intent, None if there is none."""
        generation = self.transaction(day, f"/token/{token}")
        if generation is None:
            return None
        newest = self.newest(day)
        assert newest is not None
        # Only the newest publish still has its rows in the transactions once an older one's commit has left the log.
        return self._from_history(day, generation) or newest.model_copy(
            update={"generation": generation, "token": token}
        )

    def _from_history(self, day: dt.date, generation: int) -> LedgerRow | None:
        """Return a row from its commit's metadata; None if that commit has left the log."""
        wanted = {"connector": self.key.connector, "stream": self.key.stream, "day": day, "generation": generation}
        for commit in self.commits:
            if all(commit.get(f"connect.{name}") == str(value) for name, value in wanted.items()):
                values = {name: commit.get(f"connect.{name}") for name in LedgerRow.model_fields}
                known = {name: value for name, value in values.items() if value not in (None, "None")}
                return LedgerRow.model_validate(known | {"counts": json.loads(commit["connect.counts"])})
        return None

    def days(self) -> DaySet:
        """Return every published day, also empty ones."""
        if not self.is_mine:
            return DaySet()
        names = (app.removeprefix(app_prefix(self.key)) for app in self.recorded)
        return DaySet.of(dt.date.fromisoformat(name) for name in names if _DATE.fullmatch(name))

    @property
    def is_mine(self) -> bool:
        """Whether there is a table, and it belongs to this stream."""
        return self.table is not None and self.table.metadata().configuration.get(OWNER) == str(self.key)

    @cached_property
    def commits(self) -> list[dict[str, Any]]:
        """All commits still in the log, newest first."""
        if self.table is None:
            return []
        with log_errors(self.table):
            return self.table.history()

    @cached_property
    def files(self) -> list[tuple[dt.date, str, int | None]]:
        """Day, path and rows of every file of this version; rows None if its writer gave no count.

        Files without a day, or with one outside Python's calendar, are somebody else's and left out.
        """
        if self.table is None:
            return []
        import pyarrow as pa

        with log_errors(self.table):
            actions = pa.table(self.table.get_add_actions(flatten=True))
        ordinals = actions["partition.day"].cast(pa.int32()).to_pylist()
        columns = (actions[name].to_pylist() for name in ("path", "num_records"))
        return [
            (dt.date.fromordinal(ordinal + _EPOCH), path, rows)
            for ordinal, path, rows in zip(ordinals, *columns, strict=True)
            if ordinal is not None and 0 < ordinal + _EPOCH <= dt.date.max.toordinal()
        ]


@dataclass(frozen=True)
class DeltaLedger(Ledger):
    """The ledger of one stream; each call reads the table's log again."""

    options: DeltaOptions
    key: StreamKey

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return a day's newest publish; without token and digest once its commit has left the log."""
        return self._view().row(day)

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        """Return each day's newest publish, all of one version of the table."""
        view = self._view()
        days = (first + ONE_DAY * i for i in range((last - first).days + 1))
        found = [(row, view.polled_at(row.day)) for day in days if (row := view.newest(day)) is not None]
        return [row.model_copy(update={"polled_at": polled_at}) for row, polled_at in found]

    def newest(self, day: dt.date, kind: SourceKind) -> LedgerRow | None:
        """Return the publish that a day's next one must follow; without details that only the history has."""
        view = self._view()
        return view.newest(view.before(day, replaces_whole=self.options.replaces_whole(kind)))

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, even if a newer publish followed.

        The caller then publishes nothing. So the log is first flushed to the disk: the publisher may have been killed
        before it did so, and a power cut would lose the day.
        """
        view = self._view()
        row = view.published(day, token)
        if row is not None and view.table is not None:
            secure(view.folder, view.table)
        return row

    def days(self) -> DaySet:
        """Return every published day."""
        return self._view().days()

    def _view(self) -> LedgerView:
        path = self.options.path
        return LedgerView(Folder(path), open_table(path), self.key)
