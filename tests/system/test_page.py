"""The page's answers over a real Airflow: what it shows to whom after real runs, and what its buttons do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.equipment.airflow.roles import NOBODY, AirflowWithRoles
from tests.equipment.airflow.tables import OnDelta
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn
from tests.system.conftest import System, connection_of, wait_for

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 300.0
DAGS = ("paged", "broken", "paged_mapped", "untouched", "others")
RUNS = {"paged": 3, "broken": 1, "paged_mapped": 1}
STREAMS = ["broken/events", "paged/events", "paged_mapped/events[0]", "paged_mapped/events[1]", "untouched/events"]
DAYS = ["2026-09-01", "2026-09-02", "2026-09-03"]
WINDOW = f"streams/paged/events?from={DAYS[0]}&to=2026-09-04"


@pytest.fixture(scope="module")
def airflow(system: System) -> Iterator[AirflowWithRoles]:
    """The shared Airflow, once the runs that the page shows have ended."""
    airflow = system.airflow
    with StandIn(Project(seed=11, timezone="US/Pacific", events_per_day=200)) as standin:
        right = connection_of(standin, "paged", timestamps="utc")
        for connection in (right, right | {"connection_id": "mixpanel_broken", "password": "wrong"}):
            airflow.api("POST", "connections", json=connection)
        for dag_id in DAGS:
            airflow.wait_for_dag(dag_id)
        for dag_id in RUNS:
            airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
        for dag_id in ("broken", "paged_mapped"):
            airflow.api("POST", f"dags/{dag_id}/dagRuns", json={"dag_run_id": "one", "logical_date": None})
        wait_for(lambda: all(ended(airflow, *each) for each in RUNS.items()), PATIENCE_SECONDS, "five runs")
        yield airflow


def ended(airflow: AirflowWithRoles, dag_id: str, count: int) -> bool:
    return sum(run["state"] in ("success", "failed") for run in airflow.runs(dag_id)) == count


def answer(airflow: AirflowWithRoles, path: str, role: str = "admin") -> dict[str, Any]:
    got = airflow.page(f"api/{path}", role)
    assert got.status_code == 200, got.text
    return dict(got.json())


def press(airflow: AirflowWithRoles, button: str, role: str | None, order: dict[str, Any], **headers: str) -> Any:
    """Press a button."""
    return airflow.page(f"api/actions/{button}", role, "POST", json=order, headers={"X-Connect": "1"} | headers)


def states(airflow: AirflowWithRoles, role: str = "admin") -> dict[str, str]:
    """Return the states of the streams of this file's DAGs."""
    streams = answer(airflow, "streams", role)["streams"]
    return {each["id"]: each["state"] for each in streams if each["id"].partition("/")[0] in DAGS}


def days(airflow: AirflowWithRoles, role: str = "admin") -> dict[str, tuple[str, int | None, int | None]]:
    found = answer(airflow, WINDOW, role)["days"]
    return {day["day"]: (day["state"], day["generation"], day["rows"]) for day in found}


def test_airflow_lists_the_plugin_with_its_views(airflow: AirflowWithRoles) -> None:
    assert airflow.api("GET", "plugins/importErrors")["import_errors"] == []
    (plugin,) = [each for each in airflow.api("GET", "plugins")["plugins"] if each["name"] == "connect"]
    (app,) = plugin["fastapi_apps"]
    assert app["url_prefix"] == "/connect"
    assert {view["destination"]: view["href"] for view in plugin["external_views"]} == {
        "nav": "/connect/",
        "dag": "/connect/?dag_id={DAG_ID}",
        "task": "/connect/?dag_id={DAG_ID}&task_id={TASK_ID}",
        "task_instance": "/connect/?dag_id={DAG_ID}&task_id={TASK_ID}&map_index={MAP_INDEX}",
    }


@pytest.mark.parametrize("path", ["streams", WINDOW, "streams/paged/events/days/2026-09-01"])
def test_who_is_not_signed_in_gets_no_answer(airflow: AirflowWithRoles, path: str) -> None:
    got = airflow.page(f"api/{path}", None)
    assert (got.status_code, got.json()) == (401, {"error": "Sign in to Airflow"})
    assert airflow.page(f"api/{path}", None, headers={"Authorization": "Bearer forged"}).status_code == 401
    assert press(airflow, "clear", None, {"dag_id": "paged", "task_id": "events", "day": DAYS[0]}).status_code == 401


def test_the_page_itself_holds_nothing_and_lets_no_other_site_frame_it(airflow: AirflowWithRoles) -> None:
    got = airflow.page("", None)
    assert got.status_code == 200
    assert "text/html" in got.headers["content-type"]
    assert "script-src 'self'" in got.headers["content-security-policy"]
    assert "frame-ancestors 'self'" in got.headers["content-security-policy"]
    assert "paged" not in got.text


def test_a_user_without_rights_sees_nothing(airflow: AirflowWithRoles) -> None:
    for path in ("streams", WINDOW, "streams/paged/events/days/2026-09-01"):
        got = airflow.page(f"api/{path}", NOBODY)
        assert (got.status_code, got.json()) == (403, {"error": "Forbidden"})


def test_streams_have_their_states(airflow: AirflowWithRoles) -> None:
    expected = dict(zip(STREAMS, ["failed", "ok", "ok", "ok", "paused"], strict=True))
    assert states(airflow) == states(airflow, "viewer") == expected
    by_id = {each["id"]: each for each in answer(airflow, "streams")["streams"]}
    assert "answered 401" in by_id["broken/events"]["state_text"]
    paged = by_id["paged/events"]
    assert (paged["source"], paged["sink"], paged["timezone"]) == ("mixpanel", "delta", "US/Pacific")
    assert (paged["last_day"], paged["position"], paged["rejected_last_day"]) == (DAYS[-1], DAYS[-1], 0)
    assert by_id["paged_mapped/events[1]"]["target"].endswith("/paged_second")
    untouched = by_id["untouched/events"]
    assert (untouched["source"], untouched["sink"], untouched["timezone"]) == ("mixpanel", "delta", "US/Pacific")
    assert by_id["broken/events"]["failed_runs"][0]["task_url"] == by_id["broken/events"]["log_url"]


def test_a_viewer_has_no_buttons_and_no_variables(airflow: AirflowWithRoles) -> None:
    (paged,) = [each for each in answer(airflow, "streams", "viewer")["streams"] if each["id"] == "paged/events"]
    assert (paged["can_edit"], paged["position"], paged["last_day"]) == (False, None, DAYS[-1])
    assert answer(airflow, WINDOW, "viewer")["quota"] is None
    order = {"dag_id": "paged", "task_id": "events", "day": DAYS[0]}
    assert press(airflow, "clear", "viewer", order).status_code == 403
    order = {"dag_id": "paged", "from": DAYS[0], "to": DAYS[1], "reprocess": "completed"}
    assert press(airflow, "backfill", "viewer", order).status_code == 403
    assert [each["state"] for each in airflow.runs("paged")] == ["success"] * 3


def test_days_are_as_the_table_has_them(system: System, airflow: AirflowWithRoles) -> None:
    table = OnDelta(str(system.folder / "tables" / "paged"))
    published = {day: ("done", row.generation, row.rows) for day, row in table.ledger().items()}
    assert sorted(published) == DAYS
    assert days(airflow) == days(airflow, "viewer") == {**published, "2026-09-04": ("none", None, None)}
    found = answer(airflow, WINDOW)
    assert (found["origin"], found["backfill"]) == (DAYS[0], None)
    assert found["quota"]["limit"] == 100_000
    assert found["quota"]["used"] >= 3
    assert all(day["bytes"] > 0 and day["run_url"].startswith("/dags/paged/runs/") for day in found["days"][:3])


def test_lineage_is_told_by_airflow_s_own_provider(system: System, airflow: AirflowWithRoles) -> None:
    lines = (system.folder / "lineage.json").read_text(encoding="utf-8").splitlines()
    ended = [event for event in map(json.loads, lines) if event["job"]["name"] == "paged.events"]
    told = [event for event in ended if event["eventType"] == "COMPLETE"]
    assert len(told) >= 3
    ((source,), (target,)) = told[0]["inputs"], told[0]["outputs"]
    assert source["namespace"].startswith("mixpanel://") or source["namespace"]
    assert source["inputFacets"]["inputStatistics"]["rowCount"] > 0
    assert target["outputFacets"]["outputStatistics"]["rowCount"] > 0
    assert {field["name"] for field in target["facets"]["schema"]["fields"]} >= {"event", "time"}
    assert target["facets"]["columnLineage"]["fields"]["event"]["inputFields"][0]["field"] == "event"


def test_a_failed_day_says_why(airflow: AirflowWithRoles) -> None:
    found = answer(airflow, "streams/broken/events/days/2026-09-01", "viewer")
    assert found["day"]["state"] == "failed"
    (entry,) = found["generations"]
    assert (entry["status"], entry["run_id"]) == ("failed", "one")
    assert "answered 401" in entry["warnings"][0]


def test_a_request_of_another_site_does_nothing(airflow: AirflowWithRoles) -> None:
    order = {"dag_id": "paged", "task_id": "events", "day": DAYS[0]}
    for headers in ({"X-Connect": ""}, {"Sec-Fetch-Site": "cross-site"}, {"Content-Type": "text/plain"}):
        assert press(airflow, "clear", "admin", order, **headers).status_code == 403
    assert [each["state"] for each in airflow.runs("paged")] == ["success"] * 3


def test_clearing_a_day_loads_it_again(airflow: AirflowWithRoles) -> None:
    got = press(airflow, "clear", "user", {"dag_id": "paged", "task_id": "events", "day": DAYS[1]})
    assert got.status_code == 200, got.text
    assert days(airflow)[DAYS[1]][0] == "running"
    wait_for(lambda: days(airflow)[DAYS[1]][:2] == ("done", 2), PATIENCE_SECONDS, "generation 2")
    found = answer(airflow, f"streams/paged/events/days/{DAYS[1]}")
    assert [each["generation"] for each in found["generations"]] == [2, 1]
    assert found["day"]["reloaded"] is True
    assert [each[1] for each in days(airflow, "viewer").values()] == [1, 2, 1, None]


def test_a_day_without_a_run_is_for_a_backfill(airflow: AirflowWithRoles) -> None:
    got = press(airflow, "clear", "admin", {"dag_id": "paged", "task_id": "events", "day": "2026-08-01"})
    assert got.status_code == 409
    assert "Start a backfill" in got.json()["error"]


def preview(airflow: AirflowWithRoles, first: str, last: str, dag_id: str = "paged", **more: str) -> dict[str, Any]:
    """Ask for the cost of a backfill."""
    query = "&".join(f"{name}={value}" for name, value in more.items())
    return answer(airflow, f"backfill?dag_id={dag_id}&from={first}&to={last}&{query}", "admin")


def test_a_preview_shows_runs_requests_and_time_and_starts_nothing(airflow: AirflowWithRoles) -> None:
    found = preview(airflow, DAYS[0], DAYS[1], reprocess="completed")
    assert (found["runs"], found["requests"], found["before_start"], found["problem"]) == (2, 2, 0, None)
    assert found["text"].startswith("2 runs, about 2 requests, about ")
    assert "at the pace of the last runs, at most 1 active run" in found["text"]
    assert found["notes"] == ["2 runs of these load days that are done"]
    assert found["command"].startswith("airflow backfill create --dag-id paged --from-date 2026-09-01T00:00:00-07:00")
    assert preview(airflow, DAYS[0], DAYS[1])["problem"].startswith(f"No run is left from {DAYS[0]} to {DAYS[1]}")
    assert "non-periodic" in preview(airflow, DAYS[0], DAYS[1], "broken")["problem"]
    assert airflow.page(f"api/backfill?dag_id=paged&from={DAYS[0]}&to={DAYS[1]}", "viewer").status_code == 403
    assert answer(airflow, WINDOW)["backfill"] is None


def test_days_before_the_start_are_counted_and_refused(airflow: AirflowWithRoles) -> None:
    found = preview(airflow, "2026-08-30", DAYS[0])
    assert (found["runs"], found["before_start"], found["first_day"]) == (2, 2, DAYS[0])
    refused = press(airflow, "backfill", "admin", {"dag_id": "paged", "from": "2026-08-30", "to": DAYS[0]})
    assert refused.status_code == 409, refused.text
    assert "2 of 2 runs are before the DAG's start" in refused.json()["error"]
    assert len(airflow.runs("paged")) == RUNS["paged"]


def test_a_backfill_is_started_and_seen(airflow: AirflowWithRoles) -> None:
    order = {"dag_id": "paged", "from": DAYS[0], "to": DAYS[1], "reprocess": "completed"}
    got = press(airflow, "backfill", "admin", order)
    assert got.status_code == 200, got.text
    found = answer(airflow, WINDOW)["backfill"]
    assert (found["from"], found["to"], found["total"], found["estimated_end"]) == (DAYS[0], DAYS[1], 2, None)
    again = press(airflow, "backfill", "admin", order)
    assert again.status_code == 409, again.text
    assert "running backfill" in preview(airflow, DAYS[1], DAYS[2], reprocess="completed")["problem"]
    wait_for(
        lambda: [each[:2] for each in days(airflow).values()][:2] == [("done", 2), ("done", 3)],
        PATIENCE_SECONDS,
        "both days again",
    )


def test_a_backfill_of_what_has_never_run_takes_the_days_that_are_meant(airflow: AirflowWithRoles) -> None:
    order = {"dag_id": "untouched", "from": DAYS[0], "to": DAYS[1], "reprocess": "none"}
    assert press(airflow, "backfill", "user", order).status_code == 200
    starts = [run["data_interval_start"] for run in airflow.runs("untouched")]
    assert starts == [f"{day}T07:00:00Z" for day in DAYS[:2]]
    found = answer(airflow, f"streams/untouched/events?from={DAYS[0]}&to={DAYS[2]}")
    assert [day["state"] for day in found["days"]] == ["running", "running", "none"]
    assert (found["backfill"]["from"], found["backfill"]["to"], found["backfill"]["total"]) == (DAYS[0], DAYS[1], 2)
