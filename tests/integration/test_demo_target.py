"""The demo's BigQuery: fetched, started, asked, and ended."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
from pathlib import Path

import pytest
from google.cloud.bigquery import Table

from airflow_provider_connect.demo.bigquery_emulator import BigQueryEmulator
from airflow_provider_connect.demo.bigquery_target import BigQueryTarget

pytestmark = pytest.mark.slow

ROWS = """
INSERT INTO analytics.mixpanel_events (day, time, event, distinct_id, properties)
SELECT DATE '2026-09-01', TIMESTAMP_ADD(TIMESTAMP '2026-09-01', INTERVAL n HOUR), CONCAT('e', CAST(n AS STRING)), 'u',
       PARSE_JSON('{"b": 1, "a": [2]}')
FROM UNNEST([3, 2, 1, 0]) AS n
"""


def test_target_counts_and_shows_what_a_table_holds(tmp_path: Path):
    target = BigQueryTarget(tmp_path)
    try:
        assert target.emulator.rest_url in target.start(dict(os.environ))
        assert target.rows() == 0
        with contextlib.closing(target.emulator.client()) as client:
            columns = {"day": "DATE", "time": "TIMESTAMP", "event": "STRING", "distinct_id": "STRING"}
            fields = [{"name": name, "type": kind} for name, kind in (columns | {"properties": "JSON"}).items()]
            reference = {"projectId": target.emulator.project, "datasetId": "analytics", "tableId": "mixpanel_events"}
            made = Table.from_api_repr({"tableReference": reference, "schema": {"fields": fields}})
            client.create_table(made, timeout=30)
        target.emulator.query(ROWS)
        assert target.rows() == 4
        assert sorted(target.events()) == [(dt.date(2026, 9, 1), f"e{n}", '{"b":1,"a":[2]}') for n in range(4)]
        assert [row[2] for row in target.sample()] == ["e0", "e1", "e2"]
        assert target.emulator.tables("analytics") == ["mixpanel_events"]
    finally:
        target.emulator.stop()


def test_an_emulator_that_cannot_start_says_why_and_leaves_no_process(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        emulator = BigQueryEmulator(log=tmp_path / "emulator.log", rest_port=taken.getsockname()[1])
        with pytest.raises(RuntimeError, match=r"did not start; the end of .*emulator.log"):
            emulator.start()
    assert emulator.process is not None
    assert emulator.process.poll() is not None
