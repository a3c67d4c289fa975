"""The demo's Delta table: a folder beside the demo's Airflow, read with DuckDB."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import Any, ClassVar

from tests.demo.target import Target


class DeltaTarget(Target):
    """A Delta table on this machine's disk; it needs no server and no connection."""

    name: ClassVar[str] = "delta"
    dag_id: ClassVar[str] = "mixpanel_daily"
    reader: ClassVar[str] = "DuckDB"
    table: ClassVar[str] = "mixpanel_events"

    @property
    def path(self) -> str:
        """Root of the table."""
        return str(self.folder / "tables" / self.table)

    @property
    def settings(self) -> dict[str, str]:
        """The table's path."""
        return {"CONNECT_DEMO_TABLE": self.path}

    def start(self, environment: dict[str, str]) -> str:
        """Make an empty folder for the table."""
        tables = self.folder / "tables"
        shutil.rmtree(tables, ignore_errors=True)
        tables.mkdir(parents=True)
        return f"the table is the folder {self.path}"

    def rows(self) -> int:
        """Return how many rows the table's log counts; 0 while there is no table."""
        from deltalake import DeltaTable

        return int(DeltaTable(self.path).count()) if DeltaTable.is_deltatable(self.path) else 0

    def events(self) -> list[tuple[dt.date, str, str]]:
        """Return day, event and properties of every row."""
        return self._select("select day, event, properties from events")

    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest rows."""
        return self._select(
            "select day, time, event, distinct_id, left(properties, 60) from events order by time limit 3"
        )

    def _select(self, query: str) -> list[tuple[Any, ...]]:
        import duckdb
        from deltalake import DeltaTable

        with duckdb.connect() as session:
            session.execute("set timezone = 'UTC'")
            session.register("events", DeltaTable(self.path).to_pyarrow_dataset())
            return session.execute(query).fetchall()
