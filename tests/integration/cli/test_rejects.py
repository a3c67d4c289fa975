"""Set-aside records of a day are seen, and are gone once the source or the DAG is mended and the day replayed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.demo.mixpanel.faults import Fault
from airflow_provider_connect.demo.mixpanel.server import StandIn
from tests.integration.cli.conftest import Run, lines

pytestmark = pytest.mark.slow

DAY = dt.date(2026, 3, 2)
DAGS = """
import datetime as dt
from airflow.sdk import DAG, Asset
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource

source = dict(conn_id="cli_mixpanel", project_timezone="UTC", errors_tolerance="all")
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
"""


@pytest.fixture(scope="module", autouse=True)
def bad(mixpanel: StandIn) -> Iterator[None]:
    """Let the export of a day hold three lines that are no records, however often it is asked for."""
    mixpanel.faults.replace([Fault("bad_line", date=DAY, times=None, count=3)])
    yield
    mixpanel.faults.replace([])


def test_a_day_with_rejects_is_listed_shown_and_replayed(run: Run, lake: Path, mixpanel: StandIn) -> None:
    code, out, err = run("rejects", "show", "cli_bad", "events", str(DAY))
    assert (code, "has nothing of" in err) == (1, True), err
    assert run("rejects", "replay", "cli_bad", "events", str(DAY))[0] == 1
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
    assert "source=3" in run("rejects", "list", "cli_bad", "events", "--days", str(DAY), "-o", "plain")[1]

    code, out, err = run("rejects", "show", "cli_bad", "events", str(DAY), "--rows", "2", "-o", "json")
    found = lines(out)
    assert (code, len(found), {*found[0]}) == (0, 2, {"from", "position", "column", "reason", "digest"})
    assert f"3 set aside, in {lake}/bad/_connect/attempts" in err
    assert "Bad Line" not in out + err
    code, out, err = run("rejects", "show", "cli_bad", "events", str(DAY), "--records", "-o", "json")
    assert (code, "is your data" in err) == (0, True)
    assert [each["record"] for each in lines(out)] == ['{"event":"Bad Line","properties":{"time":'] * 3
    assert run("rejects", "show", "cli_bad", "events", "2026-03-03", "-o", "json")[:2] == (0, "[]\n")
    assert run("rejects", "show", "cli_bad", "events", str(DAY), "--rows", "0")[0] == 78

    code, out, err = run("rejects", "replay", "cli_bad", "events", str(DAY), "-o", "json")
    assert code == 1, err
    assert [(line["when"], line["rejected"]) for line in lines(out)] == [("before", "3"), ("after", "3")]
    assert "mend one of them first" in err

    mixpanel.faults.replace([])
    code, out, err = run("rejects", "replay", "cli_bad", "events", str(DAY), "-o", "json")
    assert code == 0, err
    assert [(line["when"], line["generation"], line["rejected"]) for line in lines(out)] == [
        ("before", "2", "3"),
        ("after", "3", "0"),
    ]
    assert lines(out)[0]["rows"] == lines(out)[1]["rows"] == moved["rows_written"]
    [kept] = lines(run("ledger", "cli_bad", "events", str(DAY), "-o", "json")[1])
    assert kept["run"].startswith("cli_bad/cli__")
    code, out, err = run("rejects", "replay", "cli_bad", "events", str(DAY))
    assert (code, out, "nothing to replay" in err) == (0, "", True)
