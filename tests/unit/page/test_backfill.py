"""A backfill's cost is known before it starts, and the server checks again what the dialog checked."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from airflow_provider_connect import offsets
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page.app import make_app
from airflow_provider_connect.page.facts.backfill import (
    BackfillCost,
    PlannedRun,
    RequestCost,
    first_day,
    seconds_per_run,
)
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import ONE_DAY, DaySet
from tests.equipment.airflow.rest_api import RestApi, Rights
from tests.unit.page.test_app import OWN_PAGE, TASK

SOURCE, SINK = MixpanelSource(), DeltaSink(path="/t")
TODAY = dt.datetime.now(dt.UTC).date()
DAY = {number: TODAY - ONE_DAY * number for number in range(1, 31)}
MIDNIGHT = dt.time(tzinfo=dt.UTC)


def midnight(day: dt.date) -> str:
    return dt.datetime.combine(day, MIDNIGHT).isoformat()


def instance(day: dt.date, state: str = "success", source: Any = SOURCE) -> dict[str, Any]:
    start = dt.datetime.combine(day + ONE_DAY, dt.time(1), tzinfo=dt.UTC)
    return {
        "dag_id": "a",
        "task_id": "t",
        "map_index": -1,
        "dag_run_id": f"run-{day}",
        "state": state,
        "start_date": start.isoformat(),
        "end_date": (start + dt.timedelta(minutes=6)).isoformat(),
        "run_after": start.isoformat(),
        "rendered_fields": {"source": source.serialize(), "sink": SINK.serialize(), "days": str(day)},
    }


def store_offset(api: RestApi, *days: dt.date, origin: dt.date | None = None) -> None:
    offset = Offset.from_published(SOURCE, SINK, DaySet.from_dates(days), origin)
    api.variables = {offsets.variable_key(SOURCE, SINK): offset.model_dump_json()}


@pytest.fixture
def api() -> RestApi:
    """A DAG that lacks the days 5 and 4 days ago."""
    api = RestApi({"all": Rights({"a"}), "user": Rights({"a"}, variables=False), "one": Rights({"a"}, edits=False)})
    api.dags, api.tasks, api.runs = ["a"], {"a": [TASK]}, [instance(DAY[2])]
    api.start_dates = {"a": midnight(DAY[10])}
    api.next_interval = (midnight(DAY[1]), midnight(TODAY))
    api.connections = {SOURCE.conn_id: {"conn_type": "mixpanel", "extra": '{"project_id": 1}'}}
    store_offset(api, DAY[8], DAY[7], DAY[6], DAY[3], DAY[2])
    return api


@pytest.fixture
def client(api: RestApi) -> TestClient:
    page, airflow = make_app(find_editable=api.editable), api.app()

    async def within(scope: Any, receive: Any, send: Any) -> None:
        await page({**scope, "airflow": airflow}, receive, send)

    return TestClient(Starlette(routes=[Mount("/connect", app=within)]))


def get(client: TestClient, path: str, token: str = "all") -> Any:
    return client.get(f"/connect/api/{path}", headers={"Authorization": f"Bearer {token}"})


def preview(client: TestClient, first: dt.date, last: dt.date, token: str = "all", **more: str) -> dict[str, Any]:
    query = "".join(f"&{name}={value}" for name, value in more.items())
    got = get(client, f"backfill?dag_id=a&from={first}&to={last}{query}", token)
    assert got.status_code == 200, got.text
    return dict(got.json())


def start(client: TestClient, first: dt.date, last: dt.date, **more: str) -> Any:
    order = {"dag_id": "a", "from": str(first), "to": str(last)} | more
    headers = {"Authorization": "Bearer all"} | OWN_PAGE
    return client.post("/connect/api/actions/backfill", json=order, headers=headers)


def missing(client: TestClient, token: str = "all") -> list[tuple[str, str, int]]:
    answer = get(client, "streams/a/t", token).json()["missing"]
    return [(gap["from"], gap["to"], gap["days"]) for gap in answer]


def test_a_gap_s_days_are_missing(client: TestClient) -> None:
    assert missing(client) == [(str(DAY[5]), str(DAY[4]), 2)]


def test_days_before_the_start_or_in_an_active_run_are_not_missing(client: TestClient, api: RestApi) -> None:
    store_offset(api, DAY[2], origin=DAY[20])
    assert missing(client) == [(str(DAY[10]), str(DAY[3]), 8)]
    api.runs.append(instance(DAY[10], "running"))
    assert missing(client) == [(str(DAY[9]), str(DAY[3]), 7)]
    api.start_dates = {}
    api.tasks["a"] = [TASK | {"start_date": midnight(DAY[4])}]
    assert missing(client) == [(str(DAY[4]), str(DAY[3]), 2)], "the earliest start of the tasks counts"


def test_the_days_behind_of_a_dag_without_a_next_run_are_missing(client: TestClient, api: RestApi) -> None:
    api.next_interval = None
    assert missing(client) == [(str(DAY[5]), str(DAY[4]), 2), (str(DAY[1]), str(DAY[1]), 1)]
    api.runs.append(instance(DAY[10], "running"))
    assert missing(client) == [(str(DAY[5]), str(DAY[4]), 2)], "Airflow may plan a run when this one ends"


def test_without_the_offset_no_day_is_known_to_be_missing(client: TestClient) -> None:
    assert missing(client, "user") == []


def test_a_preview_shows_runs_requests_time_and_the_command(client: TestClient, api: RestApi) -> None:
    api.dry_runs = [midnight(DAY[5]), midnight(DAY[4])]
    answer = preview(client, DAY[5], DAY[4])
    assert answer["text"] == (
        "2 runs, about 2 requests, about 6 min (at the pace of the last runs, at most 4 active runs)"
    )
    assert (answer["runs"], answer["requests"], answer["seconds"], answer["before_start"]) == (2, 2, 360, 0)
    assert (answer["notes"], answer["problem"]) == ([], None)
    assert answer["command"] == (
        f"airflow backfill create --dag-id a --from-date {midnight(DAY[5])} --to-date {midnight(DAY[4])} "
        "--reprocess-behavior none --max-active-runs 4"
    )
    assert api.posted == []


def test_unknown_figures_are_named(client: TestClient, api: RestApi) -> None:
    api.runs = []
    answer = preview(client, DAY[5], DAY[5])
    assert (answer["text"], answer["requests"], answer["seconds"]) == ("1 run", None, None)
    assert answer["notes"] == [
        "The number of requests is unknown before a run has shown the source",
        "The time of a run is unknown: no run has succeeded yet",
    ]


def test_requests_of_a_source_without_a_quota_are_left_out(client: TestClient, api: RestApi) -> None:
    api.runs = [instance(DAY[2], source=SqlSource(conn_id="shop", table="t", snapshot="daily"))]
    answer = preview(client, DAY[5], DAY[5])
    assert (answer["text"], answer["requests"]) == (
        "1 run, about 6 min (at the pace of the last runs, at most 4 active runs)",
        None,
    )


def test_a_connection_that_cannot_be_read_leaves_the_quota_unknown(client: TestClient) -> None:
    answer = preview(client, DAY[5], DAY[5], "user")
    assert answer["requests"] == 1
    assert answer["notes"] == ["The quota of connection 'mixpanel_default' is unknown: the page cannot read it"]


def test_days_that_are_done_or_stay_missing_and_a_paused_dag_are_named(client: TestClient, api: RestApi) -> None:
    api.dry_runs = [midnight(DAY[6]), midnight(DAY[5])]
    api.paused = {"a"}
    assert preview(client, DAY[6], DAY[4])["notes"] == [
        "The DAG is paused. Its runs begin when you unpause it",
        "1 run of these loads days that are done",
        f"1 missing day already has a run and is left out: {DAY[4]}. Choose 'All days, including loaded ones', or "
        "clear the runs",
    ]


def test_runs_before_the_start_are_refused_unless_they_are_asked_for(client: TestClient, api: RestApi) -> None:
    api.dry_runs = [midnight(day) for day in (DAY[12], DAY[11], DAY[10])]
    answer = preview(client, DAY[12], DAY[10])
    assert (answer["before_start"], answer["first_day"]) == (2, str(DAY[10]))
    refused = start(client, DAY[12], DAY[10])
    assert refused.status_code == 409
    assert refused.json()["error"] == (
        f'2 of 3 runs are before the DAG\'s start. Begin on {DAY[10]}, or send "before_start": "run" to run them too'
    )
    assert api.posted == []
    assert start(client, DAY[12], DAY[10], before_start="run").status_code == 200
    assert len(api.posted) == 1


def test_without_a_run_nothing_is_started(client: TestClient, api: RestApi) -> None:
    api.dry_runs = []
    problem = preview(client, DAY[5], DAY[4])["problem"]
    assert problem.startswith(f"No run is left from {DAY[5]} to {DAY[4]}")
    refused = start(client, DAY[5], DAY[4])
    assert (refused.status_code, refused.json()) == (409, {"error": problem})
    assert api.posted == []


def test_a_running_backfill_is_named_before_the_button_is_pressed(client: TestClient, api: RestApi) -> None:
    api.backfills = [{"completed_at": None}]
    assert "has a running backfill" in preview(client, DAY[5], DAY[4])["problem"]
    api.backfills = [{"completed_at": midnight(DAY[1])}]
    assert preview(client, DAY[5], DAY[4])["problem"] is None


@pytest.mark.parametrize(("first", "last"), [(DAY[4], DAY[5]), (DAY[1] - ONE_DAY * 4000, DAY[1])])
def test_a_range_that_is_none_is_refused(client: TestClient, first: dt.date, last: dt.date) -> None:
    assert get(client, f"backfill?dag_id=a&from={first}&to={last}").status_code == 422
    assert start(client, first, last).status_code == 422


def test_a_viewer_without_rights_has_no_preview(client: TestClient) -> None:
    assert get(client, f"backfill?dag_id=a&from={DAY[5]}&to={DAY[4]}", "one").status_code == 403
    assert get(client, f"backfill?dag_id=b&from={DAY[5]}&to={DAY[4]}").status_code == 403


def test_the_slower_of_quota_and_pace_counts() -> None:
    runs = [PlannedRun(dt.datetime.combine(day, MIDNIGHT), (day, day)) for day in DAY.values()]
    by_quota = BackfillCost(runs, RequestCost(30, 9.0, "3 requests an hour"), 600, max_active_runs=2)
    assert str(by_quota) == "30 runs, about 30 requests, about 9.0 h (at 3 requests an hour)"
    by_pace = BackfillCost(runs, RequestCost(30, 1.0, "30 requests an hour"), 600, max_active_runs=1)
    assert str(by_pace).endswith("about 5.0 h (at the pace of the last runs, at most 1 active run)")


def test_the_pace_is_the_median_run_from_its_first_task_to_its_last() -> None:
    def row(run_id: str, start: int, end: int) -> dict[str, str]:
        begin = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
        times = {"start_date": start, "end_date": end}
        return {"dag_run_id": run_id} | {
            name: (begin + dt.timedelta(minutes=value)).isoformat() for name, value in times.items()
        }

    rows = [row("a", 0, 1), row("a", 2, 10), row("b", 20, 22), row("c", 0, 500)]
    assert seconds_per_run(rows) == 600
    assert seconds_per_run([{"dag_run_id": "d", "start_date": None, "end_date": None}]) is None


def test_a_weekly_run_needs_the_requests_of_its_days(client: TestClient, api: RestApi) -> None:
    api.next_interval = (midnight(TODAY), midnight(TODAY + ONE_DAY * 7))
    api.dry_runs = [midnight(DAY[14])]
    answer = preview(client, DAY[14], DAY[8])
    assert (answer["runs"], answer["requests"]) == (1, 7)


@pytest.mark.parametrize(
    ("start", "zone", "day"),
    [
        ("2026-09-01T07:00:00+00:00", "US/Pacific", 1),
        ("2026-09-01T07:01:00+00:00", "US/Pacific", 2),
        ("2026-09-01T07:00:00+00:00", None, 1),
    ],
)
def test_the_first_day_begins_at_the_start_or_later(start: str, zone: str | None, day: int) -> None:
    assert first_day(dt.datetime.fromisoformat(start), zone) == dt.date(2026, 9, day)


def test_runs_of_partitions_load_the_day_of_their_key() -> None:
    row = {"logical_date": None, "partition_key": "2026-11-03", "partition_date": "2026-11-03T08:00:00Z"}
    run = PlannedRun.from_dry_run(row, "US/Pacific", 7)
    assert run is not None
    assert run.days == (dt.date(2026, 11, 3), dt.date(2026, 11, 3))
