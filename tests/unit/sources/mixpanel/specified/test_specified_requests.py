"""Every request to Mixpanel, over all streams and options, fits its OpenAPI files and what clients have met."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_connect.polling.findings import ProposalRequest
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.preflight.check import check_connection
from airflow_provider_connect.sources._mixpanel.proposals import propose_from_sample
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import connection, poll
from tests.equipment.specifications.requests import FORM, SentRequest, recorded_requests
from tests.equipment.specifications.specification import mixpanel_requests, name_of, problems
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

SPECIFIED = mixpanel_requests()
DAYS = [Day(date=dt.date(2026, 3, number)) for number in (1, 2, 3)]
PACIFIC = Day(date=dt.date(2026, 3, 8), zone="US/Pacific")
WHERE = 'properties["$browser"] == "Chrome"'
PROJECT_SECRET = "older"

CASES: list[dict[str, Any]] = [
    {},
    {"event": ["Page View", 'Größe "L"'], "where": WHERE},
    {"split_rows": 40},
    {"split_rows": 40, "event": ["Page View"], "where": WHERE},
    {"stream": "engage"},
    {"stream": "engage", "where": 'properties["plan"] == "free"', "output_properties": ["plan", "$last_seen"]},
    {"stream": "engage", "filter_by_cohort": 1002},
    {"stream": "engage", "data_group_id": "-42"},
    {"stream": "cohorts"},
    {"stream": "cohort_members"},
    {"stream": "cohort_members", "cohorts": [1002, 1003], "on_unreadable": "skip"},
    {"stream": "annotations"},
    {"stream": "funnels"},
    {"stream": "funnels", "funnels": [9070]},
    {"stream": "retention", "born_event": "Page View"},
    {"stream": "retention", "born_event": "a", "born_where": WHERE, "event": "b", "where": WHERE, "interval_count": 9},
    {"stream": "retention", "born_event": "a", "interval_days": 7},
    {"stream": "retention", "retention_type": "compounded", "interval_days": 90},
    {"stream": "insights", "bookmark_id": 3001},
    {"stream": "segmentation", "event": ["Page View", "never"]},
    {"stream": "segmentation", "event": ["Page View"], "on": 'properties["$os"]', "where": WHERE},
]
OTHERWISE = {"days_per_request", "timestamps"}
"""Options of which requests are made by tests of their own below."""
WITHOUT_REQUESTS = {"deduplicate", "promote", "null_texts", "errors_tolerance", "max_rejects", "max_record_bytes"}
"""Options that decide what becomes of an answer."""


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(
        Project(events_per_day=120),
        people=People(users=250, groups={"-42": 30}),
        engage=Engage(page_size=100),
        account=Account(project_secret=PROJECT_SECRET),
    ) as server:
        yield server


def require_specified(sent: list[SentRequest]) -> set[str]:
    """Fail if a request is none that Mixpanel specifies; return the names of all."""
    assert sent
    assert [problem for request in sent for problem in problems(request, SPECIFIED)] == []
    for request in sent:
        assert request.headers["accept-encoding"] == "gzip"
        assert request.method == "GET" or request.headers["content-type"] == FORM
    return {name_of(request, SPECIFIED) for request in sent}


def test_every_option_of_every_stream_is_among_the_cases() -> None:
    """A new option has to be added to the cases."""
    for name, stream in STREAMS.items():
        used = {option for case in CASES if case.get("stream", "export") == name for option in case}
        assert stream.options - used - OTHERWISE - WITHOUT_REQUESTS == set(), name


@pytest.mark.parametrize("login", ["service account", "project secret"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_every_request_of_a_poll_is_specified(standin: StandIn, options: dict[str, Any], login: str) -> None:
    there = connection(standin)
    if login == "project secret" and options.get("stream") != "annotations":  # the App API takes none
        there = there.model_copy(update={"login": None, "password": SecretStr(PROJECT_SECRET), "extra": {}})
    standin.faults.replace([])
    with recorded_requests() as sent, MixpanelSource(**options).open(there, PollContext()) as poller:
        for part in poller.plan([DAYS[0]]):
            list(poller.poll(part, Tally()))
    names = require_specified(sent)
    assert any(name.startswith(_PATHS[options.get("stream", "export")]) for name in names)


_PATHS = {name: f"GET /api/query/{name}" for name in STREAMS} | {
    "export": "GET /api/2.0/export",
    "engage": "POST /api/query/engage",
    "cohorts": "POST /api/query/cohorts/list",
    "cohort_members": "POST /api/query/engage",
    "annotations": "GET /api/app/projects/",
}


@pytest.mark.parametrize("regime", ["utc", "project_local"])
@pytest.mark.parametrize("split_rows", [None, 40])
def test_days_of_either_regime_are_asked_for_as_specified(regime: str, split_rows: int | None) -> None:
    with (
        StandIn(Project(regime=regime, timezone="US/Pacific", events_per_day=120)) as server,  # type: ignore[arg-type]
        recorded_requests() as sent,
    ):
        poll(server, day=PACIFIC, zone="US/Pacific", timestamps=regime, split_rows=split_rows)
    require_specified(sent)
    dates = {name: value for name, value in sent[-1].query if name.endswith("_date")}
    assert dates == {"from_date": "2026-03-08", "to_date": "2026-03-09" if regime == "utc" else "2026-03-08"}


def test_several_days_in_one_export_are_asked_for_as_specified(standin: StandIn) -> None:
    with (
        recorded_requests() as sent,
        MixpanelSource(days_per_request=3).open(connection(standin), PollContext()) as poller,
    ):
        (part,) = poller.plan(DAYS)
        list(poller.poll(part, Tally(DAYS)))
    assert require_specified(sent) == {"GET /api/2.0/export"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"event": ["Page View"]},
        {"event": ["Page View"], "where": WHERE},
        {"split_rows": 9},
        {"event": [f"event {number}" for number in range(90)]},
    ],
    ids=str,
)
def test_counts_are_asked_for_as_specified(standin: StandIn, options: dict[str, Any]) -> None:
    standin.faults.replace([])
    with recorded_requests() as sent, MixpanelSource(**options).open(connection(standin), PollContext()) as poller:
        poller.count(DAYS[0], Tally())
    assert require_specified(sent) <= {
        "GET /api/query/events", "GET /api/query/events/names", "GET /api/query/segmentation",
    }  # fmt: skip


@pytest.mark.parametrize("stream", ["export", "engage", "annotations"])
def test_a_check_of_each_api_is_asked_for_as_specified(standin: StandIn, stream: Any) -> None:
    with recorded_requests() as sent:
        assert check_connection(connection(standin), MixpanelOptions(stream=stream)).passed
    require_specified(sent)


@pytest.mark.parametrize("stream", ["export", "engage"])
def test_a_sample_to_promote_is_asked_for_as_specified(standin: StandIn, stream: Any) -> None:
    with recorded_requests() as sent:
        propose_from_sample(
            connection(standin), ProposalRequest(stream=stream, day=DAYS[0].date, records=50, columns=9)
        )
    require_specified(sent)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ([("unit", "day"), ("interval", "1")], "unit and interval exclude each other"),
        ([("interval", "91")], "is not from 1 to 90"),
        ([("unit", "hour")], "is not one of"),
        ([("unit", "day"), ("unit", "day")], "comes twice"),
        ([("days", "1")], "days is not known"),
        ([("from_date", "2026-3-1")], "is no date"),
        ([("interval_count", "x")], "is no integer"),
    ],
)
def test_a_request_outside_the_specification_is_detected(query: list[tuple[str, str]], problem: str) -> None:
    right = {"project_id": "1", "from_date": "2026-03-01", "to_date": "2026-03-01", "born_event": "a"}
    pairs = [(name, value) for name, value in right.items() if name not in dict(query)]
    headers = {"authorization": "Basic dTpz"}
    assert problems(SentRequest("GET", "/api/query/retention", pairs, headers, b""), SPECIFIED) == (
        [] if "from_date" not in dict(query) else ["GET /api/query/retention: from_date is required"]
    )
    (found,) = problems(SentRequest("GET", "/api/query/retention", pairs + query, headers, b""), SPECIFIED)
    assert problem in found
