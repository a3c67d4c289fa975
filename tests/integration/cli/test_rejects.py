"""Set-aside records of a day are seen, and are gone once the source or the DAG is mended and the day replayed."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.models.connection import Connection
from airflow.utils.session import create_session

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.temporary import local_stage, stage_name
from tests.integration.cli.conftest import Run, lines
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

DAY = dt.date(2026, 3, 2)
ENGAGE = "/api/query/engage"
DAGS = """
import datetime as dt
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.shapes import Drop
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

source = dict(conn_id="cli_mixpanel", zone="UTC", errors_tolerance="all")
with DAG("cli_bad", schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)):
    ConnectOperator(
        task_id="events",
        source=MixpanelSource(stream="export", **source),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/bad"),
        asset=Asset("x-lake://bad"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="people",
        source=MixpanelSource(stream="engage", **source),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/people"),
        asset=Asset("x-lake://people"),
        conn_id="cli_spark",
    )
    ConnectOperator(
        task_id="dropped",
        source=MixpanelSource(stream="export", **source),
        sink=DeltaSink(path="{{ var.value.cli_lake }}/dropped"),
        shape=[Drop(columns=["properties"])],
        asset=Asset("x-lake://dropped"),
        conn_id="cli_spark",
    )
with DAG("cli_staged", schedule=None, start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC)):
    for task_id, staging in (("named", "{{ var.value.cli_lake }}/stage"), ("local", None)):
        ConnectOperator(
            task_id=task_id,
            source=MixpanelSource(stream="export", **source),
            sink=KafkaSink(conn_id="cli_kafka", topic="events"),
            staging=staging,
            conn_id="cli_spark",
        )
"""


@pytest.fixture(scope="module", autouse=True)
def bad(mixpanel: StandIn) -> Iterator[None]:
    """Let the export of a day hold three lines that are no records, however often it is asked for."""
    mixpanel.faults.replace([Fault("bad_line", date=DAY, times=None, count=3)])
    yield
    mixpanel.faults.replace([])


def test_a_day_with_rejects_is_listed_shown_and_replayed(run: Run, lake: Path, mixpanel: StandIn) -> None:
    code, out, err = run("rejects", "show", "cli_bad", "events", "--day", str(DAY))
    assert (code, "has no publish of" in err) == (1, True), err
    assert run("rejects", "replay", "cli_bad", "events", "--day", str(DAY))[0] == 1
    code, out, err = run("run", "cli_bad", "events", "--days", f"{DAY}..2026-03-03", "-o", "json")
    assert code == 0, err
    [moved, _] = lines(out)
    assert moved["rejected"] == "3"

    code, out, err = run("rejects", "list", "cli_bad", "events", "--days", "2026-03-01..2026-03-31", "-o", "json")
    [line] = lines(out)
    assert (code, line["day"], line["generation"], line["rejected"], line["gone"]) == (1, str(DAY), "1", "3", "0")
    assert line["from"] == {"source": "3"}
    assert sum(int(count) for count in line["reasons"].values()) == 3
    assert run("rejects", "list", "cli_bad", "events", "--days", "2026-03-03", "-o", "json")[:2] == (0, "[]\n")
    plain = run("rejects", "list", "cli_bad", "events", "--days", str(DAY), "-o", "plain")[1]
    assert ("source=3" in plain, "3 x invalid JSON" in plain) == (True, True)

    code, out, err = run("rejects", "show", "cli_bad", "events", "--day", str(DAY), "--rows", "2", "-o", "json")
    found = lines(out)
    assert (code, len(found), {*found[0]}) == (0, 2, {"from", "position", "column", "reason", "digest"})
    assert f"3 rejects in {lake}/bad/_connect/attempts" in err
    assert "Bad Line" not in out + err
    code, out, err = run("rejects", "show", "cli_bad", "events", "--day", str(DAY), "--records", "-o", "json")
    assert (code, "is your data" in err) == (0, True)
    assert [each["record"] for each in lines(out)] == ['{"event":"Bad Line","properties":{"time":'] * 3
    assert run("rejects", "show", "cli_bad", "events", "--day", "2026-03-03", "-o", "json")[:2] == (0, "[]\n")
    assert run("rejects", "show", "cli_bad", "events", "--day", str(DAY), "--rows", "0")[0] == 78

    code, out, err = run("rejects", "replay", "cli_bad", "events", "--day", str(DAY), "-o", "json")
    assert code == 1, err
    assert [(line["when"], line["rejected"]) for line in lines(out)] == [("before", "3"), ("after", "3")]
    assert "Correct one of them first" in err

    mixpanel.faults.replace([])
    code, out, err = run("rejects", "replay", "cli_bad", "events", "--day", str(DAY), "-o", "json")
    assert code == 0, err
    assert [(line["when"], line["generation"], line["rejected"]) for line in lines(out)] == [
        ("before", "2", "3"),
        ("after", "3", "0"),
    ]
    assert lines(out)[0]["rows"] == lines(out)[1]["rows"] == moved["rows_written"]
    [kept] = lines(run("ledger", "cli_bad", "events", "--day", str(DAY), "-o", "json")[1])
    assert kept["run"].startswith("cli_bad/cli__")
    code, out, err = run("rejects", "replay", "cli_bad", "events", "--day", str(DAY))
    assert (code, out, "nothing to replay" in err) == (0, "", True)


def test_behind_a_shape_that_drops_a_record_is_not_kept(run: Run, mixpanel: StandIn) -> None:
    day = "2026-03-12"
    mixpanel.faults.replace([Fault("bad_line", date=dt.date.fromisoformat(day), times=None)])
    assert run("run", "cli_bad", "dropped", "--days", day)[0] == 0
    [reject] = lines(run("rejects", "show", "cli_bad", "dropped", "--day", day, "--records", "-o", "json")[1])
    record = b'{"event":"Bad Line","properties":{"time":'
    assert reject["record"] == "(record not kept)"
    assert reject["digest"] == hashlib.blake2b(record, digest_size=16).hexdigest()


def test_a_day_that_the_source_no_longer_has_is_unchanged(run: Run, mixpanel: StandIn) -> None:
    day = "2026-03-10"
    mixpanel.faults.replace([Fault("bad_line", date=dt.date.fromisoformat(day), times=None)])
    [before] = lines(run("run", "cli_bad", "events", "--days", day, "-o", "json")[1])
    mixpanel.faults.replace([Fault("empty", date=dt.date.fromisoformat(day), times=None)])
    code, out, err = run("rejects", "replay", "cli_bad", "events", "--day", day, "-o", "json")
    assert (code, out) == (65, ""), err
    assert f"not replaced. Generation 1 stays, with {before['rows_written']} rows and 1 rejects" in err
    assert "show --records" in err
    [kept] = lines(run("ledger", "cli_bad", "events", "--day", day, "-o", "json")[1])
    assert kept["generation"] == "1"
    assert len(lines(run("rejects", "show", "cli_bad", "events", "--day", day, "--records", "-o", "json")[1])) == 1


def test_only_the_newest_snapshot_is_asked_for_again(run: Run, mixpanel: StandIn) -> None:
    mixpanel.faults.replace([Fault("bad_profile", path=ENGAGE, times=None, count=2)])
    older, newer = "2026-03-01", "2026-03-02"
    for day in (older, newer):
        assert run("run", "cli_bad", "people", "--days", day)[0] == 0
    code, _, err = run("rejects", "replay", "cli_bad", "people", "--day", older)
    assert (code, "no longer has that of 2026-03-01" in err, "Replay 2026-03-02" in err) == (78, True, True), err
    mixpanel.faults.replace([])
    code, out, err = run("rejects", "replay", "cli_bad", "people", "--day", newer, "-o", "json")
    assert (code, [line["rejected"] for line in lines(out)]) == (0, ["6", "0"]), err
    assert "its present state, not that of the earlier load" in err


def test_a_sweep_reaches_the_stage_that_a_sink_does_not_keep(
    run: Run, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    extra = json.dumps({"bootstrap.servers": "localhost:1"})
    with create_session() as session:
        session.add(Connection(conn_id="cli_kafka", conn_type="kafka", extra=extra))
    code, out, err = run("sweep", "cli_staged", "--dry-run", "-o", "json")
    assert (code, lines(out)) == (0, []), err
    assert not [*tmp_path.iterdir()], "a listing makes nothing"
    source = MixpanelSource(conn_id="cli_mixpanel", zone="UTC")
    key = StreamKey(connector="mixpanel", stream=source.stream_key)
    target = KafkaSink(conn_id="cli_kafka", topic="events").target
    stages = {"named": lake / "stage", "local": Path(local_stage(stage_name(key, target)))}
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).timestamp()
    files = {}
    for task, stage in stages.items():
        for attempt in ("aa-1-20260301", "bb-1-20260301"):
            files[task, attempt] = stage / "day=2026-03-01" / f"{attempt}-00000-0.parquet"
            files[task, attempt].parent.mkdir(parents=True, exist_ok=True)
            files[task, attempt].write_bytes(b"x")
        os.utime(files[task, "aa-1-20260301"], (old, old))
    listed = lines(run("sweep", "cli_staged", "--dry-run", "-o", "json")[1])
    assert [(line["task"].partition(".")[2], line["left_over"]) for line in listed] == [
        (task, str(files[task, "aa-1-20260301"])) for task in stages
    ]
    assert [line["deleted"] for line in lines(run("sweep", "cli_staged", "-o", "json")[1])] == ["1", "1"]
    assert [path.exists() for path in files.values()] == [False, True, False, True]
