"""The ledger of a Delta table: application transactions in its log, with details from its history."""

from __future__ import annotations

import datetime as dt
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect import __version__
from airflow_provider_connect.sink import Ledger, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._delta_table import OWNER, open_table
from airflow_provider_connect.stage import DATA_FILE
from airflow_provider_connect.window import ONE_DAY, DaySet

if TYPE_CHECKING:
    from deltalake import DeltaTable


def app_id(key: StreamKey, day: dt.date) -> str:
    """Return the application id under which a day's generation is recorded."""
    return f"connect/{key}/{day}"


def transactions(row: LedgerRow, key: StreamKey) -> dict[str, int]:
    """Return the application transactions that record ``row``: id to version."""
    app = app_id(key, row.day)
    return {
        app: row.generation,
        f"{app}/order": row.order,
        f"{app}/token/{row.token}": row.generation,
        f"{app}/attempt/{row.attempt}": row.generation,
    }


def details(row: LedgerRow, publish: Publish) -> dict[str, str]:
    """Return the commit's metadata: the row for people, and for :meth:`LedgerView.row` while the log keeps it."""
    values = row.model_dump(mode="json") | {
        "connector": publish.key.connector,
        "stream": publish.key.stream,
        "run": publish.intent.run,
        "package": __version__,
    }
    values["counts"] = json.dumps(row.counts)
    flat = {f"connect.{name}": str(value) for name, value in values.items()}
    return flat | {f"connect.label.{name}": value for name, value in publish.labels.items()}


class LedgerView:
    """The ledger of one stream as one version of the table has it."""

    def __init__(self, table: DeltaTable | None, key: StreamKey) -> None:
        self.table = table
        self.key = key

    def transaction(self, day: dt.date, what: str = "") -> int | None:
        """Return the version recorded for a day's application transaction, None when there is none."""
        if self.table is None:
            return None
        version: int | None = self.table.transaction_version(app_id(self.key, day) + what)
        return version

    def generation(self, day: dt.date) -> int:
        """Return a day's newest generation, 0 when it was never published."""
        return self.transaction(day) or 0

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day, None if it never was."""
        generation = self.generation(day)
        return self._row(day, generation, "", self.transaction(day, "/order") or 0) if generation else None

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published for one intent, None if nothing was."""
        generation = self.transaction(day, f"/token/{token}")
        if generation is None:
            return None
        newest = generation == self.generation(day)
        return self._row(day, generation, token, (self.transaction(day, "/order") or 0) if newest else 0)

    def _row(self, day: dt.date, generation: int, token: str, order: int) -> LedgerRow:
        """Complete a row from the log's history; from the files themselves when that is gone."""
        for details in self.history:
            if details.get("connect.day") == str(day) and details.get("connect.generation") == str(generation):
                return LedgerRow(
                    day=day,
                    generation=generation,
                    token=details["connect.token"],
                    order=int(details["connect.order"]),
                    rows=int(details["connect.rows"]),
                    digest=details["connect.digest"],
                    attempt=details["connect.attempt"],
                    counts=json.loads(details["connect.counts"]),
                    published_at=dt.datetime.fromisoformat(details["connect.published_at"]),
                )
        rows = sum(count for date, _, count in self.files if date == day)
        return LedgerRow(day=day, generation=generation, token=token, order=order, rows=rows)

    def days(self) -> DaySet:
        """Return every published day: those with files of ours, then those the ledger confirms around them."""
        if self.table is None or self.table.metadata().configuration.get(OWNER) != str(self.key):
            return DaySet()
        done = {date for date, path, _ in self.files if DATA_FILE.fullmatch(path)}
        done |= {dt.date.fromisoformat(details["connect.day"]) for details in self.history}
        maybe = done | {date for date, _, _ in self.files}
        if not maybe:
            return DaySet()
        first, last = min(maybe), max(maybe)
        between = {first + ONE_DAY * i for i in range((last - first).days)} | maybe
        done |= {date for date in between - done if self.generation(date)}
        for edge, step in ((first, -ONE_DAY), (last, ONE_DAY)):
            date = edge + step
            while self.generation(date):
                done.add(date)
                date += step
        return DaySet.of(done)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Commits of this stream that are still in the log, newest first."""
        commits = self.table.history() if self.table is not None else []
        mine = {"connect.connector": self.key.connector, "connect.stream": self.key.stream}
        return [c for c in commits if "connect.day" in c and all(c.get(k) == v for k, v in mine.items())]

    @cached_property
    def files(self) -> list[tuple[dt.date, str, int]]:
        """Day, path and rows of every file of this version; foreign files of no day are left out."""
        if self.table is None:
            return []
        import pyarrow as pa

        actions = pa.table(self.table.get_add_actions(flatten=True))
        columns = (actions[name].to_pylist() for name in ("partition.day", "path", "num_records"))
        return [(date, path, rows or 0) for date, path, rows in zip(*columns, strict=True) if date is not None]


class DeltaLedger(Ledger):
    """The ledger of one stream, read anew from the table's log at every question."""

    def __init__(self, path: str, key: StreamKey) -> None:
        self.path = path
        self.key = key

    def row(self, day: dt.date) -> LedgerRow | None:
        """Return the newest published state of a day; without token and digest when its commit has left the log."""
        return LedgerView(open_table(self.path), self.key).row(day)

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return what was published of a day for one intent, also when a newer one followed."""
        return LedgerView(open_table(self.path), self.key).published(day, token)

    def days(self) -> DaySet:
        """Return every published day."""
        return LedgerView(open_table(self.path), self.key).days()
