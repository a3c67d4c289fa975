"""Commands about definitions and alarms, on a real Airflow database, with Delta tables and a file of SQLite."""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.models.connection import Connection as AirflowConnection
from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.definition import build_definition
from airflow_provider_connect.sink import Publisher, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Alarm,
    Resumption,
    alarm_note,
    definition_note,
    notes_of_kind,
)
from tests.equipment.delta.lab import SCHEMA, staged
from tests.integration.cli.conftest import Run, lines

pytestmark = pytest.mark.slow

DAGS = """
import datetime as dt
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.sql import SqlSource

with DAG("cli_defined", schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(
            conn_id="cli_mixpanel", stream="export", zone="UTC", where='properties["d"] != "{{ ds }}"'
        ),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/defined"),
        asset=Asset("x-lake://defined"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="orders",
        source=SqlSource(conn_id="cli_shop", table="orders", mode="incrementing", incrementing_column="id"),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/orders"),
        asset=Asset("x-lake://orders"),
        conn_id="cli_spark",
    )
"""
MONDAY = dt.date(2026, 3, 2)
EXPORT = StreamKey(connector="mixpanel", stream="cli_mixpanel.export")
ORDERS = StreamKey(connector="sql", stream="cli_shop.orders")


def published(path: Path, key: StreamKey, dates: list[dt.date], definition: StreamDefinition) -> Publisher:
    """Publish days of a stream under a definition, as jobs of an earlier DAG did."""
    publisher = DeltaSink(path=str(path)).open(key, {})
    if not (path / "_delta_log").exists():
        assert publisher.preflight(SCHEMA, (), "day") == []
    publisher.note(definition_note(definition, "cli_defined/earlier/events"))
    for date in dates:
        publish = staged(path, date, ["a"], f"{date}", run="cli_defined/earlier/events")
        in_force = publisher.ledger.definition_in_force()
        seen = in_force and in_force.digest
        publisher.commit(replace(publish, key=key, definition=definition.digest, definition_seen=seen), None, [])
    return publisher


def earlier(lake: Path, **options: object) -> StreamDefinition:
    source = MixpanelSource(
        **{"conn_id": "cli_mixpanel", "zone": "UTC", "where": 'properties["d"] != "{{ ds }}"'} | options  # type: ignore[arg-type]
    )
    connection = Connection(conn_id="cli_mixpanel", conn_type="mixpanel", extra={"project_id": "2195193"})
    return build_definition(source, source.serialize(), connection)


def test_a_change_is_shown_asked_for_and_noted(run: Run, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run("accept", "cli_defined", "events", "--yes")
    assert (code, "Nothing to accept" in err) == (0, True)
    published(lake / "defined", EXPORT, [MONDAY], earlier(lake, zone="US/Pacific", timestamps="utc"))
    monkeypatch.setattr("builtins.input", lambda question: "no")
    code, out, err = run("accept", "cli_defined", "events", "--output", "json")
    changes = [line["change"] for line in lines(out)]
    assert "zone was US/Pacific, and is UTC" in changes
    assert (code, "Nothing was changed" in err) == (1, True)
    monkeypatch.setattr("builtins.input", lambda question: "yes")
    assert run("accept", "cli_defined", "events")[0] == 0
    publisher = DeltaSink(path=str(lake / "defined")).open(EXPORT, {})
    (note,) = notes_of_kind(publisher.ledger.notes(), "acceptance")
    in_force = publisher.ledger.definition_in_force()
    assert in_force is not None
    assert Acceptance.model_validate(note.content).published == in_force.digest
    assert note.run.startswith("cli/")
    with create_session() as session:
        assert session.scalars(select(Log).where(Log.event == "cli_accept")).first() is not None


def test_days_that_were_loaded_otherwise_are_listed_with_their_backfill(run: Run, lake: Path) -> None:
    days = [MONDAY + dt.timedelta(days=n) for n in (7, 8, 10)]
    published(lake / "defined", EXPORT, days, earlier(lake, event=["signup"]))
    code, out, _ = run(
        "plan", "cli_defined", "events", "--days", "2026-03-08..2026-03-20", "--changed", "--output", "json"
    )
    found = lines(out)
    assert code == 0
    assert [(line["from"], line["to"], line["days"]) for line in found] == [
        ("2026-03-09", "2026-03-10", "2"),
        ("2026-03-12", "2026-03-12", "1"),
    ]
    assert found[0]["load_again"] == (
        "airflow backfill create --dag-id cli_defined --from-date 2026-03-09T00:00:00+00:00 "
        "--to-date 2026-03-10T00:00:00+00:00 --reprocess-behavior completed"
    )


def test_an_alarm_is_answered_with_a_position(run: Run, lake: Path, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT)")
        database.executemany("INSERT INTO orders (event) VALUES (?)", [("a",)] * 7)
    database.close()
    with create_session() as session:
        session.add(AirflowConnection(conn_id="cli_shop", conn_type="sqlite", host=str(file)))
    code, _, err = run("resume", "cli_defined", "events", "--from", "now")
    assert (code, "follows no table" in err) == (78, True)
    publisher = published(lake / "orders", ORDERS, [], StreamDefinition())
    code, _, err = run("resume", "cli_defined", "orders", "--from", "now", "--yes")
    assert (code, "the ledger has no alarm" in err) == (0, True)
    alarm = Alarm(number=3, position="[99]", reason="the counter was set back")
    publisher.note(alarm_note(alarm, "cli_defined/r/orders"))
    code, _, err = run("resume", "cli_defined", "orders", "--from", "tuesday", "--yes")
    assert code == 78
    code, out, err = run("resume", "cli_defined", "orders", "--from", "now", "--yes", "--output", "json")
    (line,) = lines(out)
    assert (code, line["increment"], line["read_up_to"]) == (0, "3", "[99]")
    (note,) = notes_of_kind(publisher.ledger.notes(), "resumption")
    answer = Resumption.model_validate(note.content)
    assert answer.alarm == alarm.id
    assert answer.position == line["goes_on_behind"]
    assert "7" in line["goes_on_behind"]
