"""``airflow connect rewrite``: a table that was not merged keeps the newest row of each key."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import pytest

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.delta.lab import SCHEMA, rows_of, staged
from tests.integration.cli.conftest import Run, lines

pytestmark = pytest.mark.slow

DAGS = """
from datetime import datetime
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

LAKE = "{{ var.value.cli_lake }}"
with DAG("cli_rewrite", schedule=None, start_date=datetime(2026, 1, 1)):
    for name, options in {"plain": {}, "merged": {"write_mode": "merge", "key": ["event"]}}.items():
        ConnectOperator(
            task_id=name,
            source=MixpanelSource(conn_id="cli_mixpanel", zone="UTC"),
            sink=DeltaSink(path=LAKE + "/events", **options),
            conn_id="cli_spark",
            asset=Asset("file:///events"),
        )
"""


def test_the_newest_row_of_each_key_stays(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, date = lake / "events", dt.date(2026, 3, 1)
    assert run("rewrite", "cli_rewrite", "merged", "--yes")[0] == 78
    source, sink = MixpanelSource(conn_id="cli_mixpanel", zone="UTC"), DeltaSink(path=str(path))
    key = StreamKey(connector=source.name, stream=source.stream_key)
    publisher = sink.open(key, {})
    assert publisher.preflight(SCHEMA, (), "day") == []
    for number in range(3):
        publish = staged(path, date + dt.timedelta(days=number), ["a", "b", f"{number}"], f"t{number}", sink=sink)
        publisher.commit(dataclasses.replace(publish, key=key), None, [])

    monkeypatch.setattr("builtins.input", lambda question: "no")
    code, _, err = run("rewrite", "cli_rewrite", "merged")
    assert (code, err) == (1, "Nothing was changed\n")
    code, _, err = run("rewrite", "cli_rewrite", "plain", "--yes")
    assert code == 78
    assert "Set write_mode='merge' and key= first" in err
    assert len(rows_of(path)) == 9
    code, out, err = run("rewrite", "cli_rewrite", "merged", "--yes", "-o", "json")
    assert code == 0, err
    [line] = lines(out)
    assert (line["task"], line["rows_before"], line["rows"]) == ("cli_rewrite.merged", "9", "5")
    assert rows_of(path) == ["0", "1", "2", "a", "b"]
