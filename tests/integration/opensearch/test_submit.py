"""Snapshots and days of a table under a real spark-submit, as documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.testing.bench import MONDAY, TUESDAY
from tests.equipment.opensearch.node import OpenSearchNode
from tests.equipment.opensearch.target import call, connection_to, day_of, hits
from tests.equipment.sql.orders import write_orders

pytestmark = pytest.mark.slow

ALIAS = "orders"


def test_a_snapshot_is_replaced_by_a_smaller_one(
    submit: Any, opensearch: OpenSearchNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit.source_name, submit.sink_name = "sql", "opensearch"
    submit.sink_connections = {"opensearch_default": connection_to(opensearch)}
    submit.staging.mkdir(exist_ok=True)
    monkeypatch.setattr(submit, "sink_options", lambda: {"alias": ALIAS, "id_columns": ["id"]})
    try:
        for number, (day, rows) in enumerate(((MONDAY, 3_000), (TUESDAY, 2_900))):
            file = tmp_path / f"shop-{number}.db"
            write_orders(file, {MONDAY: rows})
            connection = Connection(conn_id="sql_default", conn_type="sqlite", host=str(file))
            run = submit.here if number else submit.run
            ended = run([str(day)], source={"table": "orders", "snapshot": "replace"}, connection=connection)
            assert ended.report.exit_code == 0, ended.report.failure
            assert call(opensearch, "GET", f"/{ALIAS}/_count").json()["count"] == rows
            documents = hits(opensearch, ALIAS)
            assert {day_of(hit) for hit in documents} == {day}
            assert {int(hit["_id"]) for hit in documents} == {hit["_source"]["id"] for hit in documents}
            assert len(documents) == rows
    finally:
        call(opensearch, "DELETE", f"/connect-{ALIAS}-*?expand_wildcards=all")
