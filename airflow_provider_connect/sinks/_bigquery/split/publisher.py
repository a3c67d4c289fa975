"""Publishes days into several BigQuery tables, one for each value of a column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._bigquery.names import DAY
from airflow_provider_connect.sinks._bigquery.preflight import rehearse_publish
from airflow_provider_connect.sinks._bigquery.publisher import BigQueryPublisher
from airflow_provider_connect.sinks._bigquery.reloads.differences import is_by_day
from airflow_provider_connect.sinks._bigquery.split.eraser import TablesEraser
from airflow_provider_connect.sinks._bigquery.split.ledger import TablesLedger
from airflow_provider_connect.sinks._bigquery.split.targets import PartTables
from airflow_provider_connect.sinks._bigquery.staging import Part
from airflow_provider_connect.sinks._bigquery.target import Ready, ensure_target
from airflow_provider_connect.stage.tables import Tables, table_of
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa


class TablesPublisher(BigQueryPublisher):
    """Publishes days of one stream into the tables of one template; :mod:`.` says how, and why so."""

    @property
    def ledger(self) -> TablesLedger:
        """The stream's ledger, beside the head."""
        return TablesLedger(self.api, self.tables.target, self.tables.ledger, self.key)

    @property
    def _template(self) -> Tables:
        assert self.options.tables is not None
        return self.options.tables

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Find what would fail the publish; make the head and its ledger when nothing would."""
        column, options = self._template.column, self.options
        if column == DAY or column not in schema.names:
            return [f"table: the source has no column {column!r}; it has {', '.join(schema.names)}"]
        if options.replaces_whole(kind):
            return [
                f"table={options.table!r}: tables of a template keep each day, and take no snapshot in the place of "
                "the whole: set snapshot='daily', or name a table without a column"
            ]
        if found := super().preflight(schema, days, kind):
            return found
        try:
            head = ensure_target(self.api, self.tables.target, options, schema)
            known = frozenset(self.ledger.tables())
            found = PartTables(self.api, self.tables, head, known).problems(known, sorted(day.date for day in days))
            parts = tuple(Part(name, None, had_rows=True, has_rows=True) for name in known)
            rehearse_publish(self.tables, self.key, schema, head, kind, parts=parts)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return found

    def _parts(self, publish: Publish, ready: Ready) -> tuple[Part, ...]:
        """Make the tables of the day, and return them beside those that the replaced generation has rows in."""
        seen = publish.manifest.seen
        known = self.ledger.tables(publish.day.date, seen.generation)
        had = {name for name, there in known.items() if there}
        has = {table_of(file.path) for file in publish.manifest.polled.files}
        self._template.require_room(len(has), f"{publish.key} {publish.day}")
        self._template.require_room(len(known.keys() | has), f"table={self.options.table!r}")
        made = PartTables(self.api, self.tables, ready, frozenset(known)).ready(had | has)
        return tuple(
            Part(
                name,
                each.filter_column,
                had_rows=name in had,
                has_rows=name in has,
                is_by_day=is_by_day(each.table),
            )
            for name, each in made.items()
        )

    def _eraser(self, column: str) -> TablesEraser:
        return TablesEraser(self.api, self.tables, self.ledger, column)
