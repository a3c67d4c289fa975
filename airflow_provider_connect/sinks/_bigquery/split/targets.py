"""The tables of a template: made like their head, told from other people's, and looked at before the poll."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.clients.bigquery.tables import filter_column, find
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.ledger import LEDGER_LABEL
from airflow_provider_connect.sinks._bigquery.names import distinct_label
from airflow_provider_connect.sinks._bigquery.preflight import check_buffer
from airflow_provider_connect.sinks._bigquery.problems import expired, table_problems
from airflow_provider_connect.sinks._bigquery.target import Ready, ensure_columns, kind_problem

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.api import Api
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sinks._bigquery.tables import Tables

T = TypeVar("T")
_TOGETHER = 8
"""How many tables are looked at, or made, at once: that is mostly waiting."""


@dataclass(frozen=True)
class PartTables:
    """The tables of one template.

    :param tables: the head, and what lies beside it.
    :param head: the head, which holds the source's columns.
    :param known: names of the tables that had rows before.
    """

    api: Api
    tables: Tables
    head: Ready
    known: frozenset[str]

    def ready(self, names: Iterable[str]) -> dict[str, Ready]:
        """Make tables, or bring them to hold the head's columns.

        :raises ConfigError: one is missing that should not be, or is somebody else's.
        :raises DataError: one has a column of another type.
        """
        return self._each(self._ready, names)

    def found(self, names: Iterable[str]) -> dict[Place, Any]:
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

    def _place(self, name: str) -> Place:
        return self.tables.target.sibling(name)

    def _each(self, act: Callable[[str], T], names: Iterable[str]) -> dict[str, T]:
        """Act on several tables at once; after an error no further one is begun."""
        wanted = sorted(names)
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table") as pool:
            return dict(zip(wanted, pool.map(act, wanted), strict=True))

    def _ready(self, name: str) -> Ready:
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
        table = find(self.api, self._place(name))
        self._require(name, table)
        return table

    def _problems(self, name: str, dates: Sequence[dt.date]) -> list[str]:
        place = self._place(name)
        table = find(self.api, place)
        try:
            self._require(name, table)
        except ConfigError as error:
            return [str(error)]
        if problem := kind_problem(table, place):
            return [problem]
        found = table_problems(table, place, self.tables.options, self.head.columns)
        today = dt.datetime.now(dt.UTC).date()
        found += [text for date in dates if (text := expired(table, date, today))][:1]
        ready = Ready(self.head.columns, filter_column(table), (), table)
        check_buffer(self.api, place, ready, dates, "replace")
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
