"""The demo's BigQuery table: in an emulator from PyPI, reached by Google's own client libraries."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any, ClassVar

from tests.demo.target import Target
from tests.standins.bigquery_emulator import BigQueryEmulator, installed


class BigQueryTarget(Target):
    """A table in its own emulator, which keeps it in memory until ``make demo-stop``."""

    name: ClassVar[str] = "bigquery"
    dag_id: ClassVar[str] = "mixpanel_to_bigquery"
    reader: ClassVar[str] = "a query"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.emulator = BigQueryEmulator(log=folder / "bigquery.log", project="connect-demo")

    @property
    def connections(self) -> list[dict[str, Any]]:
        """The Google connection; only its endpoints, without TLS and sign-in, differ from a real project's."""
        return [
            {
                "connection_id": "google_cloud_default",
                "conn_type": "google_cloud_platform",
                "extra": json.dumps(self.emulator.connection_extra),
            }
        ]

    def as_kept(self, properties: str) -> str:
        """Return the document: BigQuery keeps JSON, not its text."""
        return json.dumps(json.loads(properties), sort_keys=True)

    def where_to_look(self, dag_url: str) -> str:
        """Return where to find the UI and the emulator."""
        return f"{super().where_to_look(dag_url)}, BigQuery's REST API at {self.emulator.rest_url}"

    def start(self, environment: dict[str, str]) -> str:
        """Fetch the emulator if it is missing, start it, and make the dataset."""
        installed()
        self.emulator.env = environment
        self.emulator.start()
        self.emulator.create_dataset("analytics")
        return f"a BigQuery emulator listens on {self.emulator.rest_url} (REST) and {self.emulator.grpc_target} (gRPC)"

    def rows(self) -> int:
        """Return the result of ``COUNT(*)``; 0 while there is no table."""
        from google.api_core.exceptions import NotFound

        try:
            [(rows,)] = self.emulator.query("SELECT COUNT(*) FROM analytics.mixpanel_events")
        except NotFound:
            return 0
        return int(rows)

    def events(self) -> list[tuple[dt.date, str, str]]:
        """Return day, event and properties of every row."""
        return self.emulator.query("SELECT day, event, TO_JSON_STRING(properties) FROM analytics.mixpanel_events")

    def sample(self) -> list[tuple[Any, ...]]:
        """Return the three oldest rows."""
        return self.emulator.query(
            "SELECT day, time, event, distinct_id, SUBSTR(TO_JSON_STRING(properties), 1, 60) "
            "FROM analytics.mixpanel_events ORDER BY time LIMIT 3"
        )
