"""The head: a table without rows. Its log is the ledger of several tables.

Its transactions are a single table's and, for each day:

- ``…/reservation``: number of the last reservation (right to publish the day)
- ``…/complete``: number of the last completed one
- ``…/reserved/<attempt>``: number of the attempt's last one
- ``…/tables/<k>``: the day's list of tables, as bits

``…/table/<name>`` is a table's index in these bits, from 0, and ``…/tables`` the number of tables.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._delta.app_transactions import app_id, app_prefix, attempt_id
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.sinks._delta.stream_ledger import DeltaLedger
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import DaySet

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

RESERVED_GENERATION = -1
"""An attempt's recorded generation between reservation and completion."""
_BITS = 62  # of a transaction's version, which is a signed 64-bit number


def open_head(options: DeltaOptions) -> DeltaTable | None:
    """Return the head's newest version, or None if no day was ever published.

    :raises ConfigError: the head is missing, but staged files exist.
    """
    table = open_table(options.ledger_path)
    if table is None and Folder(options.root).files(f"{CONTROL_FOLDER}/attempts"):
        table = open_table(options.ledger_path)  # another process may have just made it, and staged
        if table is None:
            raise ConfigError(
                f"{options.ledger_path} is gone, but {options.root} has attempts of its tables. Restore it with its "
                f"log. Or, to start again, delete the whole folder {options.root}, tables and {CONTROL_FOLDER} included"
            )
    return table


class HeadView(LedgerView):
    """The ledger in one version of the head."""

    def reservation(self, day: dt.date) -> int:
        """Return the number of a day's last reservation, or 0."""
        return self.transaction(day, "/reservation") or 0

    def reservation_of_attempt(self, day: dt.date, attempt: str) -> int | None:
        """Return the number of an attempt's last reservation, or None."""
        return self.transaction(day, f"/reserved/{attempt}")

    def is_pending(self, day: dt.date) -> bool:
        """Return True if a publish of the day was begun and not completed."""
        return self.reservation(day) != (self.transaction(day, "/complete") or 0)

    def days(self) -> DaySet:
        """Return all completely published days."""
        return DaySet.from_dates(day for day in super().days() if not self.is_pending(day))

    def pending_days(self) -> list[dt.date]:
        """Return the days whose last reservation is not completed."""
        suffix = "/reservation"
        prefix = app_prefix(self.key)
        names = (app.removeprefix(prefix).removesuffix(suffix) for app in self.app_transactions if app.endswith(suffix))
        return sorted(day for day in map(dt.date.fromisoformat, names) if self.is_pending(day))

    def half_published_days(self) -> list[dt.date]:
        """Return the pending days that were published before."""
        return [day for day in super().days() if self.is_pending(day)]

    @cached_property
    def table_indexes(self) -> dict[str, int]:
        """Each table's bit in the days' lists."""
        prefix = f"{app_prefix(self.key)}table/"
        return {app.removeprefix(prefix): at for app, at in self.app_transactions.items() if app.startswith(prefix)}

    def tables_of_day(self, day: dt.date) -> frozenset[str]:
        """Return the tables that have rows of a day, or may get some from a reserved publish."""
        parts = {at // _BITS for at in self.table_indexes.values()}
        bits = {part: self.transaction(day, f"/tables/{part}") or 0 for part in parts}
        return frozenset(name for name, at in self.table_indexes.items() if bits[at // _BITS] >> at % _BITS & 1)

    def reservation_metadata(self, day: dt.date, number: int) -> Mapping[str, Any]:
        """Return a reservation's metadata, or {} if the log has lost it."""
        expected = {"connect.reserved_day": str(day), "connect.reservation": str(number)}
        return next((c for c in self.commits if expected.items() <= c.items() and "connect.token" in c), {})


def reserve_day(
    view: HeadView, publish: Publish, tables: Collection[str]
) -> tuple[int, dict[str, int], frozenset[str]]:
    """Return the next reservation's number, its transactions, and the day's new list of tables.

    :param tables: tables that the attempt has rows for.
    """
    day, attempt, key = publish.day.date, publish.manifest.attempt, publish.key
    number, table_indexes = view.reservation(day) + 1, dict(view.table_indexes)
    for name in sorted(tables):
        table_indexes.setdefault(name, len(table_indexes))
    day_tables, app = view.tables_of_day(day) | frozenset(tables), app_id(key, day)
    app_transactions = {
        f"{app}/reservation": number,
        f"{app}/reserved/{attempt}": number,
        attempt_id(key, attempt): RESERVED_GENERATION,
        **_table_list_transactions(key, day, day_tables, table_indexes),
    }
    if new_tables := table_indexes.keys() - view.table_indexes.keys():
        # Every publish that adds a table writes this one, so no two tables get the same index.
        app_transactions |= {f"{app_prefix(key)}tables": len(table_indexes)}
        app_transactions |= {f"{app_prefix(key)}table/{name}": table_indexes[name] for name in new_tables}
    return number, app_transactions, day_tables


def completion_transactions(view: HeadView, publish: Publish, number: int, tables: Collection[str]) -> dict[str, int]:
    """Return the transactions that complete a reservation, besides the ledger row's.

    :param tables: tables that have rows of the day now.
    """
    app = app_id(publish.key, publish.day.date)
    return {
        f"{app}/reservation": number,
        f"{app}/complete": number,
        **_table_list_transactions(publish.key, publish.day.date, tables, view.table_indexes),
    }


def _table_list_transactions(
    key: StreamKey, day: dt.date, tables: Collection[str], table_indexes: Mapping[str, int]
) -> dict[str, int]:
    bits_by_part = dict.fromkeys({at // _BITS for at in table_indexes.values()}, 0)
    for name in tables:
        bits_by_part[table_indexes[name] // _BITS] |= 1 << table_indexes[name] % _BITS
    return {f"{app_id(key, day)}/tables/{part}": bits for part, bits in bits_by_part.items()}


@dataclass(frozen=True)
class TablesLedger(DeltaLedger):
    """The ledger of a template's tables. Each call reads the head's log again."""

    def view(self) -> HeadView:
        """Return the ledger in the newest version of the head."""
        return HeadView(Folder(self.options.ledger_path), open_head(self.options), self.key)
