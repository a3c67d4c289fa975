from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from airflow_provider_connect.cli.plan import _ledger_figures
from airflow_provider_connect.cli.tasks import DeclaredTask, RenderedTask
from airflow_provider_connect.shapes.chain import Chain
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day, days_between
from tests.equipment.airflow.connectors import TinyLedger

DAYS: list[Day] = days_between(dt.date(2026, 10, 1), dt.date(2026, 10, 8), "UTC")


@pytest.mark.parametrize(("snapshot", "settled"), [("replace", 6), ("daily", 2)])
def test_a_plan_tells_days_that_are_superseded_from_those_to_load(snapshot: str, settled: int, tmp_path: Path) -> None:
    ledger = TinyLedger(tmp_path / "ledger")
    for day in (DAYS[2], DAYS[5]):
        ledger.append(day.date)
    source = SqlSource(conn_id="c", table="customers", snapshot=snapshot)
    pipeline = RenderedTask(DeclaredTask(None, "t", None), source, DeltaSink(path="/t"), Chain.of(()), None)
    figures = _ledger_figures(pipeline, ledger, DAYS)
    assert (figures["published"], figures["settled"]) == (2, settled)
