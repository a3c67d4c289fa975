"""The app over a small stand-in of Airflow's API: who is told what, and how much Airflow is asked."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.routing import Mount

from airflow_provider_connect import offsets
from airflow_provider_connect.job import DayReport, JobReport
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.page import task_discovery, viewer_cache
from airflow_provider_connect.page.app import make_app
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import DaySet
from tests.equipment.airflow.rest_api import RestApi, Rights

SOURCE, SINK = MixpanelSource(), DeltaSink(path="/t")
NOW = dt.datetime.now(dt.UTC)
TODAY, ONE_DAY = NOW.date(), dt.timedelta(days=1)
TASK = {
    "task_id": "t",
    "template_fields": ["source", "sink", "days", "staging", "conf"],
    "class_ref": {"class_name": "ConnectOperator"},
    "is_mapped": False,
}
OWN_PAGE = {"X-Connect": "1"}


def event(number: int, dag_id: str, day: dt.date, at: dt.datetime | None = None) -> dict[str, Any]:
    told = JobReport.from_days(
        "a", [DayReport(day=day, status="published", generation=1, rows_written=100, raw_bytes=9)]
    )
    return {
        "id": number,
        "source_dag_id": dag_id,
        "source_task_id": "t",
        "source_run_id": f"run-{day}",
        "source_map_index": -1,
        "timestamp": (at or dt.datetime.combine(day + ONE_DAY, dt.time(1), tzinfo=dt.UTC)).isoformat(),
        "extra": told.summary(),
    }


def instance(dag_id: str, state: str, day: dt.date) -> dict[str, Any]:
    at = dt.datetime.combine(day + ONE_DAY, dt.time(1), tzinfo=dt.UTC).isoformat()
    fields = {"source": SOURCE.serialize(), "sink": SINK.serialize(), "days": str(day)}
    return {
        "dag_id": dag_id,
        "task_id": "t",
        "map_index": -1,
        "dag_run_id": f"run-{day}",
        "state": state,
        "end_date": at,
        "run_after": at,
        "rendered_fields": fields,
    }


@pytest.fixture
def api() -> RestApi:
    api = RestApi({"all": Rights({"a", "b", "other"}), "one": Rights({"a"}, False, False), "none": Rights(set())})
    api.dags = ["a", "b", "other"]
    api.tasks = {"a": [TASK], "b": [TASK], "other": [TASK | {"template_fields": ["bash_command"]}]}
    api.events = [event(number, dag_id, TODAY - ONE_DAY * 2) for number, dag_id in enumerate("ab")]
    api.runs = [instance(dag_id, "success", TODAY - ONE_DAY * 2) for dag_id in "ab"]
    offset = Offset.from_published(SOURCE, SINK, DaySet.from_dates([TODAY - ONE_DAY * 3, TODAY - ONE_DAY * 2]), None)
    api.variables = {offsets.variable_key(SOURCE, SINK): offset.model_dump_json()}
    return api


Ask = Callable[..., Any]


@pytest.fixture
def client(api: RestApi) -> TestClient:
    return TestClient(_within(make_app(find_editable=api.editable), api))


def _within(page: Any, api: RestApi) -> Starlette:
    airflow = api.app()

    async def within(scope: Any, receive: Any, send: Any) -> None:
        await page({**scope, "airflow": airflow}, receive, send)

    return Starlette(routes=[Mount("/connect", app=within)])


def ask(client: TestClient, path: str, token: str = "all") -> Any:
    got = client.get(f"/connect/api/{path}", headers={"Authorization": f"Bearer {token}"})
    assert got.status_code == 200, got.text
    return got.json()


def ids(client: TestClient, token: str) -> list[str]:
    return [each["id"] for each in ask(client, "streams", token)["streams"]]


def test_each_viewer_sees_the_dags_that_airflow_shows_them_whoever_asked_before(client: TestClient) -> None:
    for _ in range(2):
        assert ids(client, "all") == ["a/t", "b/t"]
        assert ids(client, "one") == ["a/t"]
        assert client.get("/connect/api/streams", headers={"Authorization": "Bearer none"}).status_code == 403
    got = client.get("/connect/api/streams/b/t", headers={"Authorization": "Bearer one"})
    assert (got.status_code, got.json()) == (403, {"error": "Forbidden"})


def test_rights_that_are_taken_away_are_gone_at_once(client: TestClient, api: RestApi) -> None:
    assert ids(client, "all") == ["a/t", "b/t"]
    ask(client, "streams/b/t")
    api.rights["all"].dags.remove("b")
    assert ids(client, "all") == ["a/t"]
    assert client.get("/connect/api/streams/b/t", headers={"Authorization": "Bearer all"}).status_code == 403


def test_the_token_comes_from_the_header_or_the_cookie(client: TestClient) -> None:
    assert client.get("/connect/api/streams").status_code == 401
    assert client.get("/connect/api/streams", headers={"Authorization": "Basic all"}).status_code == 401
    assert client.get("/connect/api/streams", headers={"Cookie": "_token=one"}).status_code == 200
    both = {"Authorization": "Bearer forged", "Cookie": "_token=one"}
    got = client.get("/connect/api/streams", headers=both)
    assert (got.status_code, got.json()) == (401, {"error": "Sign in to Airflow"})


def test_answers_are_kept_by_no_browser_and_framed_by_no_other_site(client: TestClient) -> None:
    got = client.get("/connect/api/streams", headers={"Authorization": "Bearer all"})
    assert got.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'self'" in got.headers["content-security-policy"]


def test_facts_that_the_viewer_may_not_read_are_left_out(client: TestClient) -> None:
    (theirs,), (mine, _) = (ask(client, "streams", token)["streams"] for token in ("one", "all"))
    assert (mine["position"], mine["can_edit"]) == (str(TODAY - ONE_DAY * 2), True)
    assert (theirs["position"], theirs["can_edit"]) == (None, False)
    assert mine["last_day"] == theirs["last_day"] == str(TODAY - ONE_DAY * 2)
    assert (mine["rows_last_day"], theirs["lag_days"], mine["source"]) == (100, 1, "mixpanel")


def test_an_api_that_fails_is_named(client: TestClient, api: RestApi) -> None:
    api.fails_with = 500
    got = client.get("/connect/api/streams", headers={"Authorization": "Bearer all"})
    assert (got.status_code, got.json()) == (502, {"error": "Airflow's API answered with 500: broken"})


def test_a_fault_of_ours_is_answered_in_json(api: RestApi) -> None:
    async def broken(token: str, dag_ids: set[str]) -> set[str]:
        raise KeyError(token)

    with TestClient(_within(make_app(find_editable=broken), api), raise_server_exceptions=False) as client:
        got = client.get("/connect/api/streams", headers={"Authorization": "Bearer all"})
    assert got.status_code == 500
    assert got.json()["error"].startswith("The page failed.")


def test_a_second_request_only_queries_news(client: TestClient, api: RestApi) -> None:
    ask(client, "streams")
    api.asked.clear()
    api.events.append(event(9, "a", TODAY - ONE_DAY, at=dt.datetime.now(dt.UTC)))
    last = [each["last_day"] for each in ask(client, "streams")["streams"]]
    assert last == [str(TODAY - ONE_DAY), str(TODAY - ONE_DAY * 2)]
    assert api.asked == {"dags": 1, "variables": 1, "assets/events": 1, "dags/~/dagRuns/~/taskInstances": 2}


def test_dags_of_others_are_asked_for_their_tasks_once(client: TestClient, api: RestApi, monkeypatch: Any) -> None:
    api.dags += [f"other-{number}" for number in range(300)]
    for rights in (api.rights["all"], api.rights["one"]):
        rights.dags |= set(api.dags[3:])
    ask(client, "streams")
    api.asked.clear()
    assert ids(client, "one") == ["a/t"]
    assert sum(count for path, count in api.asked.items() if path.endswith("/tasks")) == 1, "its own stream alone"
    monkeypatch.setattr(task_discovery, "FRESH_SECONDS", -1.0)
    api.tasks["other-299"] = [TASK]
    for _ in range(16):
        found = ids(client, "one")
    assert found == ["a/t", "other-299/t"]


def test_ten_years_of_days_are_answered_in_one_window(client: TestClient, api: RestApi) -> None:
    days = [TODAY - ONE_DAY * back for back in range(1, 3661)]
    api.events = [event(number, "a", day) for number, day in enumerate(days)]
    found = ask(client, f"streams/a/t?from={days[-1]}&to={days[0]}", "one")
    assert [each["day"] for each in found["days"]] == [str(day) for day in reversed(days)]
    assert {each["state"] for each in found["days"]} == {"done"}
    assert len(found["band"]) >= 3600
    asked = api.asked["assets/events"]
    assert 37 <= asked <= 38
    ask(client, f"streams/a/t?from={days[-1]}&to={days[0]}", "one")
    assert api.asked["assets/events"] == asked + 1


def test_a_longer_window_than_before_is_asked_for_in_full(client: TestClient, api: RestApi) -> None:
    days = [TODAY - ONE_DAY * back for back in range(1, 400)]
    api.events = [event(number, "a", day) for number, day in enumerate(days)]
    for first in (days[9], days[-1]):
        found = ask(client, f"streams/a/t?from={first}&to={days[0]}", "one")["days"]
        assert {each["state"] for each in found} == {"done"}


def test_what_is_remembered_has_a_limit_and_answers_have_none(
    client: TestClient, api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_cache, "MAX_EVENTS", 10)
    days = [TODAY - ONE_DAY * back for back in range(1, 400)]
    api.events = [event(number, "a", day) for number, day in enumerate(days)]
    for _ in range(2):
        api.asked.clear()
        found = ask(client, f"streams/a/t?from={days[-1]}&to={days[0]}", "one")["days"]
        assert {each["state"] for each in found} == {"done"}
        assert api.asked["assets/events"] == 4, "nothing was kept"


def test_a_hundred_streams_are_listed(client: TestClient, api: RestApi) -> None:
    names = [f"many-{number:03}" for number in range(100)]
    api.dags, api.rights["one"].dags = names, set(names)
    api.tasks = {name: [TASK] for name in names}
    for _ in range(2):
        assert ids(client, "one") == [f"{name}/t" for name in names]


@pytest.mark.parametrize("query", ["from=2026-01-02&to=2026-01-01", "from=2000-01-01&to=2026-01-01", "from=soon"])
def test_a_window_that_is_none_is_refused(client: TestClient, query: str) -> None:
    got = client.get(f"/connect/api/streams/a/t?{query}", headers={"Authorization": "Bearer all"})
    assert got.status_code == 422
    assert got.json()["error"]


@pytest.mark.parametrize("name", ["..", "~", "a/../b", "%2E%2E"])
def test_a_name_cannot_change_the_path(client: TestClient, name: str) -> None:
    got = client.get(f"/connect/api/streams/{name}/t", headers={"Authorization": "Bearer one"})
    assert got.status_code in (403, 404)


def press(client: TestClient, button: str, token: str, order: dict[str, Any], **headers: str) -> Any:
    sent = {"Authorization": f"Bearer {token}"} | OWN_PAGE | headers
    return client.post(f"/connect/api/actions/{button}", json=order, headers=sent)


def test_clear_names_the_run_and_the_task(client: TestClient, api: RestApi) -> None:
    day = str(TODAY - ONE_DAY * 2)
    got = press(client, "clear", "all", {"dag_id": "a", "task_id": "t", "day": day})
    assert got.status_code == 200, got.text
    ((what, body),) = api.posted
    assert what == "clear a"
    assert (body["dag_run_id"], body["task_ids"], body["dry_run"], body["only_failed"]) == (
        f"run-{day}",
        ["t"],
        False,
        False,
    )


def test_a_day_that_came_with_another_run_s_lookback_is_cleared_by_its_own(client: TestClient, api: RestApi) -> None:
    day = TODAY - ONE_DAY * 2
    again = event(7, "a", day, at=NOW) | {"source_run_id": "the next day's"}
    again["extra"]["days"][0] |= {"lookback": True, "generation": 2}
    api.events.append(again)
    assert press(client, "clear", "all", {"dag_id": "a", "task_id": "t", "day": str(day)}).status_code == 200
    assert api.posted[0][1]["dag_run_id"] == f"run-{day}"


def test_a_backfill_begins_when_its_days_do_in_the_source_s_zone(client: TestClient, api: RestApi) -> None:
    pacific = MixpanelSource(zone="US/Pacific").serialize()
    api.runs = [instance("a", "success", TODAY) | {"rendered_fields": {"source": pacific, "sink": SINK.serialize()}}]
    order = {"dag_id": "a", "from": "2026-11-01", "to": "2026-11-02", "reprocess": "failed"}
    assert press(client, "backfill", "all", order).status_code == 200
    ((_, body),) = api.posted
    assert (body["from_date"], body["to_date"]) == ("2026-11-01T07:00:00+00:00", "2026-11-02T08:00:00+00:00")
    assert (body["reprocess_behavior"], body["max_active_runs"]) == ("failed", 4)


def test_airflows_refusal_is_passed_on(client: TestClient, api: RestApi) -> None:
    got = press(client, "clear", "one", {"dag_id": "a", "task_id": "t", "day": str(TODAY - ONE_DAY * 2)})
    assert (got.status_code, got.json(), api.posted) == (403, {"error": "Forbidden"}, [])


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Connect": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Content-Type": "text/plain"},
    ],
)
def test_what_another_site_sends_does_nothing(client: TestClient, api: RestApi, headers: dict[str, str]) -> None:
    order = {"dag_id": "a", "task_id": "t", "day": str(TODAY - ONE_DAY * 2)}
    assert press(client, "clear", "all", order, **headers).status_code == 403
    assert api.posted == []


def test_an_order_with_unknown_words_is_refused(client: TestClient) -> None:
    got = press(client, "backfill", "all", {"dag_id": "a", "from": "2026-01-01", "to": "2026-01-02", "force": True})
    assert (got.status_code, "force" in got.json()["error"]) == (422, True)


def test_a_stream_that_never_ran_shows_what_its_dag_declares(client: TestClient, api: RestApi) -> None:
    api.runs, api.events = [], []
    pacific = MixpanelSource(zone="US/Pacific")
    api.declare("a", {"t": SimpleNamespace(source=pacific.serialize(), sink=SINK.serialize())})
    api.declare("b", {"t": SimpleNamespace(source=pacific.serialize(), sink=SINK.serialize())})
    for _ in range(2):
        found = {each["id"]: each for each in ask(client, "streams")["streams"]}
        assert {(each["source"], each["sink"], each["timezone"]) for each in found.values()} == {
            ("mixpanel", "delta", "US/Pacific")
        }
    assert api.declarations_read == 2, "once for each DAG"


def test_a_failed_run_without_a_known_day_has_its_links(client: TestClient, api: RestApi) -> None:
    failed = instance("a", "failed", TODAY)
    failed["rendered_fields"] = {**failed["rendered_fields"], "days": None}
    api.runs = [failed]
    (found, _) = ask(client, "streams")["streams"]
    address = f"/dags/a/runs/run-{TODAY}/tasks/t"
    assert found["failed_runs"] == [
        {"run_id": f"run-{TODAY}", "first_day": None, "last_day": None, "task_url": address}
    ]
    assert (found["dag_url"], found["task_url"], found["log_url"]) == ("/dags/a", "/dags/a/tasks/t", address)


def test_a_hash_in_a_stream_s_name_is_not_shown(client: TestClient, api: RestApi) -> None:
    source = MixpanelSource(stream="segmentation", event=["a"])
    api.runs = [instance("a", "success", TODAY) | {"rendered_fields": {"source": source.serialize(), "sink": {}}}]
    (found, _) = ask(client, "streams")["streams"]
    assert re.fullmatch(r"mixpanel_default\.segmentation\.[0-9a-f]{8}", found["stream"])
    assert found["stream_label"] == "mixpanel_default.segmentation"
