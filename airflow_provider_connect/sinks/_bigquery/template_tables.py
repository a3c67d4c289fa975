"""Publishes a day into several tables, one for each value of a column, with one ledger.

The *head* is an empty table that has the columns of all tables, and owns their ledger, rejects and staging tables.

One transaction changes up to 100 tables, ledger and rejects included
(https://cloud.google.com/bigquery/docs/transactions#limitations, 2026-11).
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
_THREADS = 8


def template_problems(options: BigQueryOptions, schema: pa.Schema, kind: SourceKind) -> list[str]:
    """Return the reasons why rows cannot be split into tables; empty without a template."""
    if options.tables is None:
        return []
    column = options.tables.column
    if column == DAY or column not in schema.names:
        return [f"table: the source has no column {column!r}. It has {', '.join(schema.names)}"]
    if options.replaces_whole(kind):
        return [
            f"table={options.table!r}: tables of a template keep every day, so a snapshot cannot replace them. Set "
            "snapshot='daily', or use a table name without a column"
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
    """Return the problems of all tables that ever had rows; empty without a template.

    :raises ConfigError: the script is too long or too expensive.
    """
    if tables.options.tables is None:
        return []
    head = ensure_target(api, tables.target, tables.options, schema)
    known_tables = frozenset(ledger.tables_with_rows())
    problems = TemplateTables(api, tables, head, known_tables).problems(known_tables, dates)
    table_changes = tuple(TableChange(name, None, had_rows=True, has_rows=True) for name in known_tables)
    rehearse_publish(tables, ledger.key, schema, head, kind, table_changes=table_changes)
    return problems


def table_changes_of(
    api: BigQueryApi, tables: TargetTables, ledger: BigQueryLedger, publish: Publish, head: PreparedTarget
) -> tuple[TableChange, ...] | None:
    """Create the day's tables. Returns the tables that the publish changes, or None without a template.

    Includes tables in which only the replaced generation has rows.
    """
    template = tables.options.tables
    if template is None:
        return None
    known_tables = ledger.tables_with_rows(publish.day.date, publish.manifest.seen.generation)
    had = {name for name, has_rows in known_tables.items() if has_rows}
    has = {table_folder(file.path) for file in publish.manifest.polled.files}
    template.require_room(len(has), f"{publish.key} {publish.day}")
    template.require_room(len(known_tables.keys() | has), f"table={tables.options.table!r}")
    targets = TemplateTables(api, tables, head, frozenset(known_tables)).ensure(had | has)
    return tuple(
        TableChange(name, ready.filter_column, name in had, name in has, is_partitioned_by_day(ready.table))
        for name, ready in targets.items()
    )


@dataclass(frozen=True)
class TemplateTables:
    """Tables of one template."""

    api: BigQueryApi
    tables: TargetTables
    head: PreparedTarget
    known: frozenset[str]

    def ensure(self, names: Iterable[str]) -> dict[str, PreparedTarget]:
        """Create the tables, or add the columns of the template's head table, which has those of all tables.

        :raises ConfigError: a table has vanished, or is not of this stream.
        :raises DataError: a column has another type.
        """
        return self._map_tables(self._ensure, names)

    def find_known(self, names: Iterable[str]) -> dict[TableRef, Any]:
        """Return the metadata of tables that ever had rows.

        :raises ConfigError: a table is missing or foreign.
        """
        return {self._table_ref(name): table for name, table in self._map_tables(self._find_known, names).items()}

    def problems(self, names: Iterable[str], dates: Sequence[dt.date]) -> list[str]:
        """Return the problems of existing tables, with remedies.

        :raises RetriableError: other writers stream into one of them.
        """
        problems_by_table = self._map_tables(lambda name: self._table_problems(name, dates), names)
        return [problem for problems in problems_by_table.values() for problem in problems]

    def _table_ref(self, name: str) -> TableRef:
        return self.tables.target.sibling(name)

    def _map_tables(self, function: Callable[[str], T], names: Iterable[str]) -> dict[str, T]:
        sorted_names = sorted(names)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="table") as pool:
            return dict(zip(sorted_names, pool.map(function, sorted_names), strict=True))

    def _ensure(self, name: str) -> PreparedTarget:
        # The schema contract was applied to the head's columns.
        options = self.tables.options.model_copy(update={"schema_contract": "evolve"})
        return ensure_columns(
            self.api,
            self._table_ref(name),
            options,
            lambda existing: self.head.columns,
            labels={LEDGER_LABEL: self._label},
            require=lambda table: self._require_own(name, table),
        )

    def _find_known(self, name: str) -> Any:
        table = find_table(self.api, self._table_ref(name))
        self._require_own(name, table)
        return table

    def _table_problems(self, name: str, dates: Sequence[dt.date]) -> list[str]:
        table_ref = self._table_ref(name)
        table = find_table(self.api, table_ref)
        try:
            self._require_own(name, table)
        except ConfigError as error:
            return [str(error)]
        if problem := table_type_problem(table, table_ref):
            return [problem]
        problems = table_problems(table, table_ref, self.tables.options, self.head.columns)
        today = dt.datetime.now(dt.UTC).date()
        problems += [text for date in dates if (text := expiry_problem(table, date, today))][:1]
        ready = PreparedTarget(self.head.columns, filter_column(table), (), table)
        require_no_streamed_rows(self.api, table_ref, ready, dates, "replace")
        return problems

    @property
    def _label(self) -> str:
        return distinct_label(self.tables.ledger.table)

    def _require_own(self, name: str, table: Any) -> None:
        table_ref, ledger = self._table_ref(name), self.tables.ledger
        in_bq = f"{table_ref.project}:{table_ref.dataset}.{table_ref.table}"
        if table is None:
            if name in self.known:
                raise ConfigError(
                    f"table {table_ref.id} is gone, but {ledger.id} says that it held days. Restore it (bq cp "
                    f"…@<milliseconds before it was dropped> {in_bq}). Or, to forget it, remove its name from the "
                    "column `tables` of that ledger"
                )
            return
        if (table.labels or {}).get(LEDGER_LABEL) != self._label:
            raise ConfigError(
                f"table {table_ref.id} is in the way: it was not created for table={self.tables.options.table!r}, "
                "which would replace days in it. Rename it, or put text around the column in table=. Or, if all of "
                f"its rows may be replaced: bq update --set_label {LEDGER_LABEL}:{self._label} {in_bq}"
            )
