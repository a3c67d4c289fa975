"""Stand-in for BigQuery's client that records each query and lets the analyzer refuse it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.api_core.exceptions import BadRequest

from airflow_provider_connect.clients.bigquery.errors import MissingError, classify
from airflow_provider_connect.clients.bigquery.sql import TableRef
from tests.equipment.bigquery.analyzer import Analyzer, RefusedError


class Recorder:
    """Stands where the client of BigQuery does, keeps each query, and answers it with one row, or with none.

    :param tables: by id.
    :param analyzer: refuses queries as BigQuery does; without one none is refused.
    """

    def __init__(self, tables: dict[str, Any], analyzer: Analyzer | None = None) -> None:
        self.tables, self.analyzer = tables, analyzer
        self.queries: list[str] = []
        self.answer: dict[str, Any] | None = None
        self.answers: list[dict[str, Any] | None] = []
        self.labels: dict[str, str] = {}
        self.location = "EU"
        self.client: Any = SimpleNamespace(
            get_table=self._get_table,
            get_dataset=lambda *_, **__: SimpleNamespace(location="EU"),
            update_table=lambda table, *_, **__: table,
            query=lambda sql, **_: self.queries.append(sql),
        )

    def locate(self, place: TableRef) -> str:
        return self.location

    def call(self, doing: str, function: Any, *args: Any, retry_missing_seconds: float = 0.0, **more: Any) -> Any:
        return function(*args, timeout=1.0, retry=None, **more)

    def query(self, sql: str, **_: Any) -> tuple[list[dict[str, Any]], None]:
        self.queries.append(sql)
        if self.analyzer is not None:
            try:
                self.analyzer.check(sql)
            except RefusedError as error:
                words = str(error).partition("] ")[2].partition("\n")[0]
                raise classify(BadRequest(words), "query") from None
        answer = self.answers.pop(0) if self.answers else self.answer
        return ([] if answer is None else [answer]), None

    def _get_table(self, name: str, **_: Any) -> Any:
        if name not in self.tables:
            raise MissingError(f"Not found: Table {name}")
        return self.tables[name]
