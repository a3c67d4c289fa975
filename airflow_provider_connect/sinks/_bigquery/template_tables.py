"""Publishes a day into several tables, one for each value of a column, under one ledger: the head's.

The head is a table without rows, beside the tables. It has the columns of all of them, its own ledger, rejects and
staging tables, and everything that a single target has. So whatever is decided about a day is decided there, as for any
target; only the changes of the data go elsewhere.

**One transaction.** BigQuery's transactions span tables: up to 100 of them
(https://cloud.google.com/bigquery/docs/transactions#limitations, 2026-11). So the publish script is that of a single
table, with a DELETE and an INSERT for each table of the day. The Delta sink has to reserve a day, commit to one table
after the other, and complete it. Here that is one step, and nothing can happen in the middle of it:

* **A kill** leaves all tables as they were, or all of them changed. A retry publishes from the staging table that is
  kept, or from the stage.
* **Two attempts** meet at the fence row. The later one finds another generation than it has seen, and changes no table.
* **Readers** see the day switch in all tables at once.

The price is a bound: ledger and rejects are two of the 100 tables, so ``max_tables`` is 98 at the most. Several
transactions, reserved and completed as in Delta, could go further. They would give up all of the above, for streams
whose tables nobody could find their way in. For these a single table, clustered by the column, serves better.

**Which tables.** Rows carry the name of their table into the staging table, which is clustered by it. A ledger row
lists the tables that have rows of its generation. A publish deletes the day from the tables that the generation which
it follows has listed, so an event that vanished loses its rows; and it inserts into those that it has rows for. The
list is read before the transaction. It is right nevertheless: the transaction passes only while that generation is
the newest, and a generation's list never changes.

Transactions take no DDL on lasting tables, so tables are made, and get new columns, before. They look like the head,
and have its label ``connect_ledger``: a table without it belongs to somebody else and is refused, whatever an event is
called. So is a day whose table is in the ledger, but gone: it held other days, too.

**An erase** (:mod:`.erasing.eraser`) is a publish of many days that only takes away. Its ledger rows list the tables
that have rows left, so that the next publish finds them. It reads which tables there are after the erase list has
grown: a table that is new since then was made by a publish under that list, and has no such rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.clients.bigquery.tables import filter_column, find_table
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.differences import is_partitioned_by_day
from airflow_provider_connect.sinks._bigquery.ledger import LEDGER_LABEL
from airflow_provider_connect.sinks._bigquery.names import DAY, distinct_label
from airflow_provider_connect.sinks._bigquery.preflight import rehearse_publish, require_no_streamed_rows
from airflow_provider_connect.sinks._bigquery.problems import expiry_problem, table_problems
from airflow_provider_connect.sinks._bigquery.staging import TableChange
from airflow_provider_connect.sinks._bigquery.target import (
    PreparedTarget,
    ensure_columns,
    ensure_target,
    table_type_problem,
)
from airflow_provider_connect.stage.tables import table_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.clients.bigquery.api import BigQueryApi
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sink import Publish
    from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions
    from airflow_provider_connect.sinks._bigquery.tables import TargetTables
    from airflow_provider_connect.window import SourceKind

T = TypeVar("T")
_TOGETHER = 8
"""How many tables are looked at, or made, at once: that is mostly waiting."""


def template_problems(options: BigQueryOptions, schema: pa.Schema, kind: SourceKind) -> list[str]:
    """Return why a source's rows cannot be split as the options say; [] without a template."""
    if options.tables is None:
        return []
    column = options.tables.column
    if column == DAY or column not in schema.names:
        return [f"table: the source has no column {column!r}; it has {', '.join(schema.names)}"]
    if options.replaces_whole(kind):
        return [
            f"table={options.table!r}: tables of a template keep each day, and take no snapshot in the place of "
            "the whole: set snapshot='daily', or name a table without a column"
        ]
    return []


def template_table_problems(
    api: BigQueryApi,
    tables: TargetTables,
    ledger: BigQueryLedger,
    schema: pa.Schema,
    dates: Sequence[dt.date],
    *,
    kind: SourceKind,
) -> list[str]:
    """Return what is wrong with the tables that had rows before; [] without a template.

    :raises ConfigError: the script of a publish into all of them could not be sent.
    """
    if tables.options.tables is None:
        return []
    head = ensure_target(api, tables.target, tables.options, schema)
    known = frozenset(ledger.tables_with_rows())
    found = TemplateTables(api, tables, head, known).problems(known, dates)
    parts = tuple(TableChange(name, None, had_rows=True, has_rows=True) for name in known)
    rehearse_publish(tables, ledger.key, schema, head, kind, table_changes=parts)
    return found


def table_changes_of(
    api: BigQueryApi, tables: TargetTables, ledger: BigQueryLedger, publish: Publish, head: PreparedTarget
) -> tuple[TableChange, ...] | None:
    """Make the tables of the day, and return them beside those that the replaced generation has rows in.

    Returns None without a template.
    """
    template = tables.options.tables
    if template is None:
        return None
    known = ledger.tables_with_rows(publish.day.date, publish.manifest.seen.generation)
    had = {name for name, there in known.items() if there}
    has = {table_folder(file.path) for file in publish.manifest.polled.files}
    template.require_room(len(has), f"{publish.key} {publish.day}")
    template.require_room(len(known.keys() | has), f"table={tables.options.table!r}")
    targets = TemplateTables(api, tables, head, frozenset(known)).ensure(had | has)
    return tuple(
        TableChange(name, ready.filter_column, name in had, name in has, is_partitioned_by_day(ready.table))
        for name, ready in targets.items()
    )


@dataclass(frozen=True)
class TemplateTables:
    """The tables of one template.

    :param tables: the head, and what lies beside it.
    :param head: the head, which holds the source's columns.
    :param known: names of the tables that had rows before.
    """

    api: BigQueryApi
    tables: TargetTables
    head: PreparedTarget
    known: frozenset[str]

    def ensure(self, names: Iterable[str]) -> dict[str, PreparedTarget]:
        """Make tables, or bring them to hold the head's columns.

        :raises ConfigError: one is missing that should not be, or is somebody else's.
        :raises DataError: one has a column of another type.
        """
        return self._each(self._ready, names)

    def find_known(self, names: Iterable[str]) -> dict[TableRef, Any]:
        """Return tables that had rows before, each with its metadata.

        :raises ConfigError: one is gone, or is somebody else's.
        """
        return {self._place(name): table for name, table in self._each(self._found, names).items()}

    def problems(self, names: Iterable[str], dates: Sequence[dt.date]) -> list[str]:
        """Return what is wrong with tables that exist, each with what to do.

        :raises RetriableError: others stream into one of them.
        """
        found = self._each(lambda name: self._problems(name, dates), names)
        return [problem for problems in found.values() for problem in problems]

    def _place(self, name: str) -> TableRef:
        return self.tables.target.sibling(name)

    def _each(self, act: Callable[[str], T], names: Iterable[str]) -> dict[str, T]:
        """Act on several tables at once; after an error no further one is begun."""
        wanted = sorted(names)
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table") as pool:
            return dict(zip(wanted, pool.map(act, wanted), strict=True))

    def _ready(self, name: str) -> PreparedTarget:
        # What may be new was decided with the head's columns.
        options = self.tables.options.model_copy(update={"schema_contract": "evolve"})
        return ensure_columns(
            self.api,
            self._place(name),
            options,
            lambda existing: self.head.columns,
            labels={LEDGER_LABEL: self._label},
            require=lambda table: self._require(name, table),
        )

    def _found(self, name: str) -> Any:
        table = find_table(self.api, self._place(name))
        self._require(name, table)
        return table

    def _problems(self, name: str, dates: Sequence[dt.date]) -> list[str]:
        place = self._place(name)
        table = find_table(self.api, place)
        try:
            self._require(name, table)
        except ConfigError as error:
            return [str(error)]
        if problem := table_type_problem(table, place):
            return [problem]
        found = table_problems(table, place, self.tables.options, self.head.columns)
        today = dt.datetime.now(dt.UTC).date()
        found += [text for date in dates if (text := expiry_problem(table, date, today))][:1]
        ready = PreparedTarget(self.head.columns, filter_column(table), (), table)
        require_no_streamed_rows(self.api, place, ready, dates, "replace")
        return found

    @property
    def _label(self) -> str:
        return distinct_label(self.tables.ledger.table)

    def _require(self, name: str, table: Any) -> None:
        place, ledger = self._place(name), self.tables.ledger
        in_bq = f"{place.project}:{place.dataset}.{place.table}"
        if table is None:
            if name in self.known:
                raise ConfigError(
                    f"table {place.id} is gone, and {ledger.id} says that it held days: restore it (bq cp "
                    f"…@<milliseconds before it was dropped> {in_bq}); or, to forget it, take its name out of the "
                    "column `tables` of that ledger"
                )
            return
        if (table.labels or {}).get(LEDGER_LABEL) != self._label:
            raise ConfigError(
                f"table {place.id} is in the way: it was not made for table={self.tables.options.table!r}, which would "
                "replace days in it. Rename it, or put text around the column; or, if all of its rows may be "
                f"replaced: bq update --set_label {LEDGER_LABEL}:{self._label} {in_bq}"
            )
