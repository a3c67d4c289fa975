"""Each command on a real Airflow database, with a DAG file of its own, a stand-in of Mixpanel and a Delta table."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from pathlib import Path

import pytest
from airflow.models.log import Log
from airflow.utils.session import create_session
from deltalake import DeltaTable
from sqlalchemy import select

from airflow_provider_connect.hooks import credentials, variables
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.polling.quota.limits import QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, Turns
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.delta.lab import SCHEMA, staged
from tests.integration.cli.conftest import Run, lines
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

DAGS = """
import datetime as dt
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.shapes import Constant, Drop, Mask
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

SOURCE = dict(conn_id="cli_mixpanel", stream="export", zone="UTC")
start = dict(schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
with DAG("cli_one", params={"name": "events"}, **start):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/{{ params.name }}"),
        asset=Asset("x-lake://one"),
        conn_id="cli_spark",
    )
with DAG("cli_shaped", **start):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/shaped"),
        shape=[
            Drop(columns=["properties"]),
            Mask(columns=["distinct_id"], conn_id="cli_key"),
            Constant(column="lake", value="{{ var.value.cli_lake }}"),
        ],
        asset=Asset("x-lake://shaped"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="keyless",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/keyless"),
        shape=[Mask(columns=["distinct_id"], conn_id="cli_spark")],
        asset=Asset("x-lake://keyless"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="misfits",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/misfits"),
        shape=[Drop(columns=["propertis"])],
        asset=Asset("x-lake://misfits"),
        conn_id="cli_spark",
    )
with DAG("cli_odd", **start):
    ConnectOperator(
        task_id="needs_a_run",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="/lake/{{ ti.run_id }}"),
        asset=Asset("x-lake://two"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="nowhere",
        source=MixpanelSource(**SOURCE | {"conn_id": "cli_missing"}),
        sink=DeltaSink(path="/lake/a"),
        conn_id="cli_missing_too",
    )
    ConnectOperator(
        task_id="transformed",
        source=MixpanelSource(**SOURCE),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/transformed"),
        asset=Asset("x-lake://three"),
        transform="SELECT event, '{{ ds }}' AS ds FROM polled",
        conn_id="cli_spark",
    )
    ConnectOperator.partial(task_id="mapped", source=MixpanelSource(**SOURCE), conn_id="cli_spark").expand(
        sink=[DeltaSink(path="/lake/a"), DeltaSink(path="/lake/b")]
    )
"""


def test_a_check_creates_nothing_and_lists_each_result(run: Run, lake: Path) -> None:
    code, out, err = run("check", "cli_one", "-o", "json")
    assert code == 0, out + err
    found = {line["what"]: line for line in lines(out)}
    assert {line["state"] for line in found.values()} <= {"ok", "not checked"}, out
    assert {what for what in found if not what.startswith("source: ")} == {
        "options", "days", "connections", "spark", "source", "sink", "ledger", "quota",
    }  # fmt: skip
    assert found["source: credentials"]["found"] == "accepted"
    assert found["spark"]["found"].startswith("local with Java in /")  # by the connection in the database
    assert f"{lake}/events" in found["options"]["found"]
    assert "The quota has room" in found["quota"]["found"]
    assert not list(lake.iterdir())


def test_an_offline_check_asks_nobody_and_a_polling_one_polls(run: Run, lake: Path, mixpanel: StandIn) -> None:
    sent = mixpanel.stats
    code, out, err = run("check", "cli_one", "--offline", "-o", "json")
    assert code == 0, out + err
    assert mixpanel.stats == sent
    assert [line["found"] for line in lines(out) if line["state"] == "not checked"] == [
        "--offline: none of them was asked"
    ]
    code, out, err = run("check", "cli_one", "--poll", "--day", "2026-01-01", "-o", "json")
    assert code == 0, out + err
    assert ("poll", "ok", "2026-01-01: a row was polled") in [(x["what"], x["state"], x["found"]) for x in lines(out)]
    assert not list(lake.iterdir())
    assert run("check", "cli_one", "--poll", "--offline")[2].endswith("--offline and --poll exclude each other\n")


def test_a_check_of_all_dags_shows_files_that_cannot_be_imported(run: Run, lake: Path) -> None:
    (bundle,) = json.loads(os.environ["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    broken = Path(bundle["kwargs"]["path"]) / "broken.py"
    broken.write_text(
        "from airflow_provider_connect.timetables import daily\nschedule = daily('Europe/Berln')  # DAG\n"
    )
    try:
        code, out, _ = run("check", "--all", "--offline", "-o", "json")
    finally:
        broken.unlink()
    assert code == 1
    assert {line["task"] for line in lines(out)} >= {"broken.py", "cli_one.events", "cli_odd.nowhere"}
    (problem,) = [line for line in lines(out) if line["task"] == "broken.py"]
    assert problem["found"].startswith("ConfigError: unknown time zone 'Europe/Berln': did you mean 'Europe/Berlin'?")
    assert run("check", "cli_one", "--all")[2].endswith("--all checks every DAG. Leave out the DAG and --source\n")


def test_a_check_finds_the_problems_of_all_tasks_at_once(run: Run) -> None:
    code, out, _ = run("check", "cli_odd", "-o", "json")
    assert code == 1
    problems = {(line["task"], line["what"]): line["found"] for line in lines(out) if line["state"] == "problem"}
    assert "is mapped" in problems["cli_odd.mapped", "options"]
    assert "'ti' is undefined" in problems["cli_odd.needs_a_run", "options"]
    missing = [
        line["found"] for line in lines(out) if (line["task"], line["what"]) == ("cli_odd.nowhere", "connections")
    ]
    assert len(missing) == 2


def test_shapes_are_checked_against_the_columns_and_shown_by_a_preview(run: Run) -> None:
    code, out, _ = run("check", "cli_shaped", "-o", "json")
    found = {(line["task"].partition(".")[2], line["what"]): line for line in lines(out)}
    assert code == 1
    assert "3 shapes" in found["events", "shapes"]["found"]
    assert found["events", "sink"]["state"] == "ok"
    assert "shape[0] (mask): conn_id: the password of connection 'cli_spark'" in found["keyless", "shapes"]["found"]
    assert "shape[0] (drop): no column 'propertis'; did you mean 'properties'?" in found["misfits", "shapes"]["found"]
    code, out, err = run("preview", "cli_shaped", "events", "--day", "2026-10-05", "--rows", "3", "-o", "json")
    assert code == 0, err
    rows = lines(out)
    assert len(rows) == 3
    assert all("properties" not in row and len(row["distinct_id"]) == 64 for row in rows)


def test_a_transform_is_checked_as_far_as_possible_without_spark(run: Run) -> None:
    code, out, _ = run("check", "cli_odd", "transformed", "-o", "json")
    assert code == 0
    found = {line["what"]: (line["state"], line["found"]) for line in lines(out)}
    assert found["transform"] == ("not checked", "SQL can be sent to Spark. A run starts by testing it")
    assert found["sink"][0] == "not checked"
    code, out, err = run("preview", "cli_odd", "transformed", "--day", "2026-10-05", "--rows", "2", "-o", "json")
    assert code == 0, err
    assert "These rows are shown as polled. Only a run applies transform=, which needs Spark SQL" in err
    assert "distinct_id" in lines(out)[0]


def test_an_unknown_name_is_refused_with_the_known_ones(run: Run) -> None:
    assert run("check", "cli_none")[0] == 78
    code, _, err = run("check", "cli_odd", "nowheer")
    assert (code, "did you mean 'nowhere'?" in err) == (78, True)
    code, _, err = run("preview", "cli_odd", "--day", "2026-03-01")
    assert (code, "Name one of" in err) == (78, True)
    assert run("ledger", "cli_one", "--day", "2026-13-01")[0] == 78


def test_a_preview_shows_rows_and_reserves_its_request(run: Run, lake: Path) -> None:
    code, out, err = run("preview", "cli_one", "events", "--day", "2026-03-01", "--rows", "3", "-o", "json")
    assert code == 0, err
    assert len(lines(out)) == 3
    assert all(row["time"].startswith("2026-03-01") for row in lines(out))
    assert "at least 1 request of 60 requests an hour" in err
    assert not list(lake.iterdir())
    code, out, _ = run("preview", "cli_one", "--day", "2026-03-01", "--rows", "1")
    assert (code, "event" in out) == (0, True)
    kept = variables.keys("connect_quota/")
    assert [key for key in kept if "/sent/" in key]
    assert not [key for key in kept if "/hold/" in key or "/wait/" in key]


def test_a_preview_without_room_takes_no_place_in_the_queue(run: Run) -> None:
    source = MixpanelSource(conn_id="cli_mixpanel", zone="UTC")
    quota = source.quota(credentials.resolve_connection("cli_mixpanel"))
    assert quota is not None
    turns = Turns(variables.VariableStore(), quota)
    used = sum(key.rpartition("@")[2] != key for key in variables.keys("connect_quota/"))
    held = turns.reserve(QuotaClaim(asker="t", requests=quota.requests, least=quota.requests - used))
    assert isinstance(held, Grant)
    try:
        code, out, err = run("preview", "cli_one", "--day", "2026-03-01")
        assert (code, out) == (75, "")
        assert "has no room for 1 of 60 requests an hour now" in err
        assert not [key for key in variables.keys("connect_quota/") if "/wait/" in key]
    finally:
        turns.settle(held, [])


def test_ledger_plan_and_sweep_read_the_sink_itself(run: Run, lake: Path) -> None:
    code, out, err = run("ledger", "cli_one", "--day", "2026-03-01", "-o", "json")
    assert (code, lines(out)) == (1, [])
    assert "has no publish of 2026-03-01" in err
    path, date = lake / "events", dt.date(2026, 3, 1)
    sink, source = DeltaSink(path=str(path)), MixpanelSource(conn_id="cli_mixpanel", zone="UTC")
    key = StreamKey(connector=source.name, stream=source.stream_key)
    publisher = sink.open(key, {})
    assert publisher.preflight(SCHEMA, (), "day") == []
    publish = dataclasses.replace(staged(path, date, ["a", "b"], "t1", sink=sink), key=key)
    publisher.commit(publish, None, [])

    code, out, _ = run("ledger", "cli_one", "events", "--day", "2026-03-01", "-o", "json")
    [line] = lines(out)
    assert (code, line["generation"], line["rows"], line["run"]) == (0, "1", "2", "dag/run-t1/task")
    assert "generation" in run("ledger", "cli_one", "--day", "2026-03-01")[1]

    code, out, _ = run("plan", "cli_one", "--days", "2026-03-01..2026-03-31", "-o", "json")
    [line] = lines(out)
    assert (code, line["days"], line["requests"], line["published"], line["rows_a_day"]) == (0, "31", "31", "1", "2")

    dead = staged(path, date, ["c"], "t2", sink=sink)
    listed = lines(run("sweep", "cli_one", "--dry-run", "-o", "json")[1])
    assert listed == []  # it may still live
    long_ago = (dt.datetime.now(dt.UTC) - dt.timedelta(days=30)).timestamp()
    for file in path.rglob(f"*{dead.manifest.attempt}*"):
        for each in [file, *file.rglob("*")]:
            os.utime(each, (long_ago, long_ago))
    left = {line["left_over"] for line in lines(run("sweep", "cli_one", "--dry-run", "-o", "json")[1])}
    assert {*left} >= {file.path for file in dead.manifest.polled.files}
    assert all((path / name).exists() for name in left)
    assert run("sweep", "cli_one")[0] == 0
    assert not any((path / name).exists() for name in left)
    assert lines(run("sweep", "cli_one", "--dry-run", "-o", "json")[1]) == []


def test_offsets_are_those_of_the_database(run: Run) -> None:
    offset = Offset.set(MixpanelSource(conn_id="cli_mixpanel"), DeltaSink(path="/lake/a"), [dt.date(2026, 3, 1)])
    [line] = lines(run("offsets", "list", "-o", "json")[1])
    assert (line["position"], line["target"]) == ("2026-03-01", "/lake/a")
    assert json.loads(run("offsets", "export")[1])[f"connect_offset/{line['offset']}"] == offset.model_dump(mode="json")
    assert run("offsets", "reset", line["offset"], "--yes")[0] == 0
    assert lines(run("offsets", "list", "-o", "json")[1]) == []
    with create_session() as session:
        logged = session.scalars(select(Log.event).where(Log.event.like("cli_%"))).all()
    assert "cli_reset_offset" in logged  # as Airflow's own commands that change something


def test_a_run_moves_days_from_here_under_an_intent_of_its_own(run: Run) -> None:
    code, out, err = run("run", "cli_one", "--days", "2026-03-05..2026-03-06", "-o", "json")
    assert code == 0, err
    assert [(line["day"], line["status"], line["generation"]) for line in lines(out)] == [
        ("2026-03-05", "published", "1"),
        ("2026-03-06", "published", "1"),
    ]
    [kept] = lines(run("ledger", "cli_one", "--day", "2026-03-06", "-o", "json")[1])
    assert kept["run"].startswith("cli_one/cli__")
    assert kept["rows"] == next(line["rows_written"] for line in lines(out) if line["day"] == "2026-03-06")
    again = lines(run("run", "cli_one", "--days", "2026-03-06", "-o", "json")[1])
    assert [(line["status"], line["generation"]) for line in again] == [("published", "2")]
    [offset] = lines(run("offsets", "list", "-o", "json")[1])
    assert int(offset["done"]) >= 2
    code, _, err = run("run", "cli_one", "--days", "2099-01-01")
    assert (code, "are in the future" in err) == (78, True)


def test_a_run_has_its_shapes_with_their_templates_rendered(run: Run, lake: Path) -> None:
    code, _, err = run("run", "cli_shaped", "events", "--days", "2026-03-05", "-o", "json")
    assert code == 0, err
    table = DeltaTable(str(lake / "shaped")).to_pyarrow_table()
    assert set(table["lake"].to_pylist()) == {str(lake)}
    assert "properties" not in table.column_names
