"""The stand-in's reports: their shapes, that they agree with its events, and whom it refuses."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.reports import ANNOTATIONS, FUNNELS, SAVED
from tests.standins.mixpanel.server import StandIn

DATE = dt.date(2026, 3, 1)
NOON = dt.datetime(2026, 3, 12, 12, tzinfo=dt.UTC)
ACCOUNT = Account(project_secret="older")
PROJECT = Project(events_per_day=100, duplicates_per_day=5)
SPAN = {"from_date": str(DATE), "to_date": str(DATE)}


@pytest.fixture
def standin() -> Iterator[StandIn]:
    with StandIn(PROJECT, account=ACCOUNT, now=lambda: NOON, query_limits=Limits(queries_per_hour=30)) as server:
        yield server


def ask(standin: StandIn, path: str, auth: tuple[str, str] | None = None, **params: Any) -> requests.Response:
    is_app = path.startswith("/api/app")
    params = params if is_app else {"project_id": ACCOUNT.project_id} | params
    auth = auth or (ACCOUNT.username, ACCOUNT.secret)
    return requests.get(standin.url + path, params=params, auth=auth, timeout=10)


def test_funnels_are_listed_and_have_steps_by_day(standin: StandIn) -> None:
    listed = ask(standin, "/api/query/funnels/list").json()
    assert listed == [{"funnel_id": funnel.id, "name": funnel.name} for funnel in FUNNELS]
    found = ask(standin, "/api/query/funnels", funnel_id=7509, from_date="2026-03-01", to_date="2026-03-03").json()
    assert found["meta"]["dates"] == list(found["data"]) == ["2026-03-01", "2026-03-02", "2026-03-03"]
    steps = found["data"]["2026-03-01"]["steps"]
    assert [step["avg_time"] is None for step in steps] == [True, False, False]
    assert ["custom_event" in step for step in steps] == [False, False, True]
    assert steps[0]["count"] > steps[1]["count"] > steps[2]["count"] > 0


def test_more_complete_a_funnel_until_its_length_is_over(standin: StandIn) -> None:
    counts = [
        standin.reports.steps(FUNNELS[0], DATE, DATE + dt.timedelta(days=passed))[-1]["count"] for passed in range(20)
    ]
    assert counts[0] == 0
    assert counts[:8] == sorted(counts[:8])
    assert len(set(counts[7:])) == 1


def test_retention_has_nobody_in_intervals_to_come(standin: StandIn) -> None:
    found = ask(standin, "/api/query/retention", born_event="a", interval_count=20, **SPAN).json()
    assert list(found) == [str(DATE)]
    counts = found[str(DATE)]["counts"]
    assert all(counts[:12])
    assert not any(counts[12:])
    assert len(counts) == 21


def test_saved_reports_come_as_they_are(standin: StandIn) -> None:
    for bookmark_id, report in SAVED.items():
        assert ask(standin, "/api/query/insights", bookmark_id=bookmark_id).json() == report


def test_counts_agree_with_the_events_and_days_without_any_are_missing(standin: StandIn) -> None:
    truth = Counter(row["event"] for row in PROJECT.expected_rows(DATE))
    one = ask(standin, "/api/query/segmentation", event="Page View", **SPAN).json()
    series = [str(DATE)]
    assert one == {
        "data": {"series": series, "values": {"Page View": {series[0]: truth["Page View"]}}},
        "legend_size": 1,
    }
    none = ask(standin, "/api/query/segmentation", event="never", **SPAN).json()
    assert none["data"] == {"series": series, "values": {"never": {}}}
    names = json.dumps([*truth, "never"])
    many = ask(standin, "/api/query/events", event=names, type="general", unit="day", **SPAN).json()
    assert {name: by[series[0]] for name, by in many["data"]["values"].items()} == truth


def test_sixty_segments_come_unasked(standin: StandIn) -> None:
    standin.project = Project(events_per_day=400)
    options = {"event": "Page View", "on": 'properties["$insert_id"]'} | SPAN
    assert len(ask(standin, "/api/query/segmentation", **options).json()["data"]["values"]) == 60
    assert len(ask(standin, "/api/query/segmentation", limit=70, **options).json()["data"]["values"]) == 70


def test_annotations_and_their_dates(standin: StandIn) -> None:
    path = "/api/app/projects/1234567/annotations"
    assert ask(standin, path).json() == {"status": "ok", "results": list(ANNOTATIONS)}
    some = ask(standin, path, fromDate="2026-02-15", toDate="2026-02-15").json()["results"]
    assert [each["id"] for each in some] == [501]


def test_the_app_api_takes_no_project_secret_and_counts_no_query(standin: StandIn) -> None:
    path, secret = "/api/app/projects/1234567/annotations", ("older", "")
    assert ask(standin, path, auth=secret).status_code == 401
    assert ask(standin, "/api/query/funnels/list", auth=secret).status_code == 200
    assert ask(standin, "/api/app/projects/1/annotations").status_code == 403
    assert {ask(standin, path).status_code for _ in range(40)} == {200}


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("funnels", {"funnel_id": 1} | SPAN, 400),
        ("funnels", {"funnel_id": "x"} | SPAN, 400),
        ("funnels", {"funnel_id": 7509}, 400),
        ("funnels", {"funnel_id": 7509} | SPAN | {"to_date": "2026-03-13"}, 400),
        ("retention", SPAN, 400),
        ("retention", {"born_event": "a", "interval": 91} | SPAN, 500),
        ("retention", {"born_event": "a", "interval": 7, "unit": "day"} | SPAN, 500),
        ("retention", {"born_event": "a", "interval": 1, "unit": "day"} | SPAN, 500),
        ("funnels", {"funnel_id": 7509, "interval": 1, "unit": "day"} | SPAN, 500),
        ("insights", {"bookmark_id": 1}, 404),
        ("insights", {}, 400),
        ("segmentation", SPAN, 400),
        ("segmentation", {"event": "Page View", "on": "x"} | SPAN, 400),
        ("segmentation", {"event": "Page View", "where": "x"} | SPAN, 400),
        ("events", {"event": "[]"} | SPAN, 400),
    ],
)
def test_what_it_refuses(standin: StandIn, path: str, params: dict[str, Any], status: int) -> None:
    answer = ask(standin, f"/api/query/{path}", **params)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_a_fault_answers_for_other_days(standin: StandIn) -> None:
    standin.faults.replace([Fault("other_day", path="/api/query/retention")])
    assert list(ask(standin, "/api/query/retention", born_event="a", **SPAN).json()) == ["2026-03-02"]
