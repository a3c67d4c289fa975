"""The streams of reports against the stand-in: what they ask, what becomes of the answers, and what is told."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from contextlib import closing

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess
from airflow_provider_connect.sources._mixpanel.client import MixpanelClient
from airflow_provider_connect.sources._mixpanel.query import segmentation
from airflow_provider_connect.sources._mixpanel.query.segmentation import count_events
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import DAY, NEEDED, connection, poll
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.reports import ANNOTATIONS, FUNNELS
from tests.standins.mixpanel.server import StandIn

REPORTS = ["annotations", "funnels", "retention", "insights", "segmentation"]
PATHS = {name: f"/api/query/{name}" for name in REPORTS} | {"annotations": "/api/app/projects/{project_id}/annotations"}
NOON = dt.datetime(2026, 3, 12, 12, tzinfo=dt.UTC)


@pytest.fixture
def standin(monkeypatch):
    monkeypatch.setattr(client, "current_time", lambda: NOON)
    with StandIn(Project(seed=4, events_per_day=200, duplicates_per_day=9), now=lambda: NOON) as server:
        yield server


def requests(standin):
    return {name: each for name, each in standin.stats["requests"].items() if each}


# Annotations


def test_annotations_have_text_user_and_tags(standin):
    rows, tally = poll(standin, stream="annotations")
    assert [row["annotation_id"] for row in rows] == [each["id"] for each in ANNOTATIONS]
    first, second, third = rows
    assert first["date"] == dt.datetime(2026, 2, 15, 12)  # noqa: DTZ001  # as a clock showed it
    assert (first["description"], first["user_id"]) == ("Preise geändert — Größe L", 7)
    assert (first["user_first_name"], first["user_last_name"]) == ("Ada", "Lovelace")
    assert json.loads(first["tags"]) == ANNOTATIONS[0]["tags"]
    assert (second["user_id"], second["user_first_name"], second["description"], second["tags"]) == (7, None, "", "[]")
    assert (third["user_id"], third["description"], third["tags"]) == (None, None, "[]")
    assert (tally.rows, tally.requests) == (3, 1)


def test_a_project_secret_is_refused_for_annotations_before_anything_is_sent(standin):
    secret = connection(standin).model_copy(update={"login": None})
    source = MixpanelSource(stream="annotations")
    (problem,) = source.check(secret)
    assert problem == (
        "connection 'm': login is empty, so the password counts as a project secret, which Mixpanel's App API "
        "refuses. Enter the user name and secret of a service account"
    )
    with source.open(secret, PollContext()) as poller:
        (part,) = poller.plan([DAY])
        with pytest.raises(ConfigError, match="project secret"):
            list(poller.poll(part, Tally()))
    assert requests(standin) == {}
    assert MixpanelSource(stream="funnels").check(secret) == []


# Funnels


def test_every_funnel_has_its_steps_of_the_day(standin):
    rows, tally = poll(standin, stream="funnels")
    expected = [(funnel, place) for funnel in FUNNELS for place in range(len(funnel.events))]
    assert [(row["funnel_id"], row["funnel_name"], row["step"]) for row in rows] == [
        (funnel.id, funnel.name, place) for funnel, place in expected
    ]
    steps = [standin.reports.steps(funnel, DAY.date, standin.today)[place] for funnel, place in expected]
    for name in ("count", "event", "avg_time", "avg_time_from_start", "step_conv_ratio", "overall_conv_ratio"):
        assert [row[name] for row in rows] == [step[name] for step in steps]
    assert [row["avg_time"] is None for row in rows] == [step == 0 for _, step in expected]
    custom = [(row["step_label"], row["custom_event_id"]) for row in rows if row["event"].startswith("$custom_event")]
    assert custom == [("Game Played", 1166)]
    assert {row["date"] for row in rows} == {DAY.date}
    assert tally.requests == 3


def test_listed_funnels_are_requested_without_the_list(standin):
    rows, tally = poll(standin, stream="funnels", funnels=[9070, 9070])
    assert [(row["funnel_id"], row["funnel_name"], row["step"]) for row in rows] == [(9070, None, 0), (9070, None, 1)]
    assert tally.requests == 1
    assert list(requests(standin)) == ["funnels"]


def test_a_funnels_day_changes_until_its_length_has_passed_and_the_keys_stay(standin):
    early, tally = poll(standin, stream="funnels")
    assert tally.counts == {"may_change": 5}
    with StandIn(standin.project, now=lambda: NOON + dt.timedelta(days=40)) as later:
        late, _ = poll(later, stream="funnels")
    assert [row["record_key"] for row in early] == [row["record_key"] for row in late]
    grown = [after["count"] - before["count"] for before, after in zip(early, late, strict=True)]
    assert grown[:3] == [0, 0, 0], "its seven days are over"
    assert grown[4] > 0, "its thirty days are not"


def test_after_ninety_days_no_funnel_changes_any_more(standin, monkeypatch):
    monkeypatch.setattr(client, "current_time", lambda: DAY.end + dt.timedelta(days=90))
    assert poll(standin, stream="funnels")[1].counts == {}
    monkeypatch.setattr(client, "current_time", lambda: DAY.end + dt.timedelta(days=89, hours=23))
    assert poll(standin, stream="funnels")[1].counts == {"may_change": 5}


# Retention


def test_retention_has_a_row_for_each_interval_that_has_begun(standin):
    rows, _ = poll(standin, stream="retention", born_event="Page View", event="Order Completed", interval_count=30)
    true = standin.reports.retention(DAY.date, standin.today, 1, 30)
    assert [row["interval_number"] for row in rows] == list(range(12)), "the twelfth begins on 13 March"
    assert [row["count"] for row in rows] == true["counts"][:12]
    assert {row["first"] for row in rows} == {true["first"]}
    assert [row["is_over"] for row in rows] == [True] * 10 + [False] * 2
    assert {(row["born_event"], row["event"]) for row in rows} == {("Page View", "Order Completed")}


def test_weeks_are_intervals_too(standin):
    rows, _ = poll(standin, stream="retention", retention_type="compounded", interval_days=7, interval_count=3)
    assert [(row["interval_number"], row["is_over"]) for row in rows] == [(0, True), (1, False)]
    assert {(row["born_event"], row["event"]) for row in rows} == {(None, None)}


@pytest.mark.parametrize(("days", "span"), [(1, {"unit": "day"}), (7, {"interval": "7"}), (90, {"interval": "90"})])
def test_every_option_of_retention_is_sent(standin, monkeypatch, days, span):
    """A request with unit and interval is answered with 500."""
    asked = []

    def send(there, request, **_):
        asked.append(request)
        raise RetriableError("enough")

    monkeypatch.setattr(MixpanelClient, "fetch", send)
    options = {"born_event": "a", "born_where": "b", "event": "c", "where": "d"}
    with pytest.raises(RetriableError, match="enough"):
        poll(standin, stream="retention", interval_days=days, interval_count=4, **options)
    (request,) = asked
    dates = {"from_date": "2026-03-01", "to_date": "2026-03-01"}
    assert request.params == options | dates | span | {"retention_type": "birth", "interval_count": "4"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "born_event: retention_type 'birth' requires it"),
        (
            {"born_event": "a", "retention_type": "compounded"},
            "born_event: retention_type 'compounded' does not use it",
        ),
        (
            {"born_where": "a", "retention_type": "compounded"},
            "born_where: retention_type 'compounded' does not use it",
        ),
        ({"born_event": "a", "event": ["a", "b"]}, "event: stream 'retention' takes one"),
        ({"born_event": "a", "interval_days": 91}, "interval_days"),
    ],
)
def test_options_of_retention_that_do_not_fit_are_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        MixpanelSource(stream="retention", **options)


# Insights


def test_a_saved_report_is_a_row_for_each_value(standin):
    rows, tally = poll(standin, stream="insights", bookmark_id=3001)
    assert [(row["metric"], row["path"], row["value"]) for row in rows[:3]] == [
        ("Page View", '["Page View"]', 812.0),
        ("Page View", '["Page View"]', 790.0),
        ("Page View", '["Page View"]', 0.0),
    ]
    assert rows[4]["value"] is None
    assert (rows[0]["date"], rows[0]["time"]) == (dt.date(2026, 3, 2), dt.datetime(2026, 3, 2, 7, tzinfo=dt.UTC))
    assert rows[0]["computed_at"] == dt.datetime(2026, 3, 23, 8, 15, 0, 252314, dt.UTC)
    assert {row["headers"] for row in rows} == {'["$event"]'}
    assert (len(rows), tally.rows, tally.counts) == (6, 6, {})


def test_saved_reports_of_segments_retention_and_funnels_have_the_same_columns(standin):
    segments, _ = poll(standin, stream="insights", bookmark_id=3002)
    assert Counter(row["path"] for row in segments) == {
        '["Revenue [Sum]", "$overall"]': 3,
        '["Revenue [Sum]", "Österreich"]': 3,
    }
    retention, _ = poll(standin, stream="insights", bookmark_id=3003)
    name = "Sign up and then Any event"
    assert [json.loads(row["path"]) for row in retention[:3]] == [
        [name, None, "$overall", "first"],
        [name, None, "$overall", "counts", 0],
        [name, None, "$overall", "counts", 1],
    ]
    funnel, _ = poll(standin, stream="insights", bookmark_id=3004)
    assert [(row["path"], row["date"], row["time"], row["value"]) for row in funnel] == [
        ('["count", "1. Page View", "all"]', None, None, 60.0),
        ('["count", "2. Order Completed", "all"]', None, None, 12.0),
    ]
    every = [*segments, *retention, *funnel]
    assert len({row["record_key"] for row in every}) == len(every)


def test_insights_require_a_bookmark_id():
    with pytest.raises(
        ConfigError, match=r"bookmark_id: stream 'insights' requires it\. Set the number after 'report-'"
    ):
        MixpanelSource(stream="insights")


# Segmentation


def counted(standin, day=DAY):
    return Counter(row["event"] for row in standin.project.expected_rows(day.date))


def test_events_are_counted_as_the_export_has_them(standin):
    names = ["Page View", "Order Completed", "never"]
    rows, tally = poll(standin, stream="segmentation", event=names)
    assert [(row["event"], row["segment"], row["count"]) for row in rows] == [
        (name, None, counted(standin)[name]) for name in names
    ]
    assert rows[2]["count"] == 0
    assert tally.requests == 3


def test_segments_are_the_values_of_an_expression(standin):
    rows, _ = poll(standin, stream="segmentation", event="Page View", on='properties["$browser"]')
    expected = Counter(
        row["properties"].get("$browser", "undefined")
        for row in standin.project.expected_rows(DAY.date)
        if row["event"] == "Page View"
    )
    assert {row["segment"]: row["count"] for row in rows} == expected
    assert len(rows) > 1


def test_more_segments_than_mixpanels_default_are_requested(standin):
    rows, _ = poll(standin, stream="segmentation", event="Page View", on='properties["$insert_id"]')
    assert len(rows) > 60
    assert sum(row["count"] for row in rows) == counted(standin)["Page View"]


def test_segmentation_is_narrowed_by_where(standin):
    where = 'properties["$browser"] == "Chrome"'
    rows, _ = poll(standin, stream="segmentation", event="Page View", on='properties["$browser"]', where=where)
    assert [row["segment"] for row in rows] == ["Chrome"]


def test_segments_that_are_cut_fail_the_day(standin, monkeypatch):
    monkeypatch.setattr(segmentation, "MAX_SEGMENTS", 2)
    with pytest.raises(
        ConfigError, match=r"on: event 'Page View' has at least 2 segments on 2026-03-01.*. Narrow them"
    ):
        poll(standin, stream="segmentation", event="Page View", on='properties["$browser"]')


def test_segmentation_requires_events():
    with pytest.raises(ConfigError, match="event: stream 'segmentation' requires it"):
        MixpanelSource(stream="segmentation")


def vendors_count(standin, names, where=None, day=DAY, zone="UTC"):
    tally = Tally()
    access = MixpanelAccess.from_connection(connection(standin), "query")
    with closing(MixpanelClient(MixpanelSource(zone=zone), access, day, tally)) as there:
        return count_events(there, names, where), tally


def test_mixpanels_own_count_of_a_day_costs_one_query_for_many_events(standin):
    names = [*counted(standin), "never"]
    found, tally = vendors_count(standin, names)
    assert found == {name: counted(standin)[name] for name in names}
    assert tally.requests == 1
    many, tally = vendors_count(standin, [f"event {number}" for number in range(81)])
    assert (set(many.values()), len(many), tally.requests) == ({0}, 81, 3)


def test_mixpanels_own_count_with_where_costs_one_query_an_event(standin):
    found, tally = vendors_count(standin, ["Page View", "Order Completed"], 'properties["$browser"] == "Chrome"')
    kept = [row for row in standin.project.expected_rows(DAY.date) if row["properties"].get("$browser") == "Chrome"]
    assert found == {name: sum(row["event"] == name for row in kept) for name in ("Page View", "Order Completed")}
    assert tally.requests == 2


@pytest.mark.parametrize("regime", ["utc", "project_local"])
def test_mixpanels_own_count_is_of_the_projects_day_as_the_export_is(regime):
    zone = "US/Pacific"
    day = Day(date=dt.date(2026, 3, 1), zone=zone)
    with StandIn(Project(regime=regime, timezone=zone, events_per_day=150)) as standin:
        rows, _ = poll(standin, day=day, zone=zone, timestamps=regime)
        found, _ = vendors_count(standin, sorted({row["event"] for row in rows}), day=day, zone=zone)
    assert found == Counter(row["event"] for row in rows)


# All of them


@pytest.mark.parametrize("name", ["funnels", "retention", "segmentation"])
def test_an_answer_for_other_days_is_refused(standin, name):
    with pytest.raises(RetriableError, match="Mixpanel answered for other days than the requested 2026-03-01"):
        poll(standin, Fault("other_day", path=PATHS[name]), stream=name, **NEEDED.get(name, {}))


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        ({"stream": "funnels", "funnels": 5}, 400, r"Check funnel 5 \(option funnels\)"),
        ({"stream": "insights", "bookmark_id": 5}, 404, r"no saved report 5 \(option bookmark_id\), so check it"),
        ({"stream": "segmentation", "event": "a", "on": "x"}, 400, r"Check event 'a' \(options event, on and where\)"),
        ({"stream": "retention", "born_event": "a", "where": "x"}, 400, "options born_event and event"),
    ],
)
def test_what_the_project_does_not_know_is_named_with_its_option(standin, options, status, said):
    path = PATHS[options["stream"]]
    with pytest.raises(ConfigError, match=rf"answered {status}: .*{said}"):
        poll(standin, Fault("status", path=path, status=status, body='{"error":"unknown"}'), **options)


@pytest.mark.parametrize("status", [400, 403])
def test_data_older_than_the_plan_shows_is_not_reported_as_a_missing_role(standin, status):
    """As clients of the real API have seen it: jaredmcfarland/mixpanel_data, ploner/RMixpanel issue 7."""
    body = '{"error":"Date range exceeds 90 days into the past"}'
    old = Fault("status", path=PATHS["funnels"], status=status, body=body)
    with pytest.raises(ConfigError, match=r"plan does not include data that old. Load later days.*exceeds 90 days"):
        poll(standin, old, stream="funnels")


def test_the_stand_in_refuses_unknown_funnels_and_reports(standin):
    with pytest.raises(ConfigError, match=r"400.*funnel 5 .*'funnel_id does not exist'"):
        poll(standin, stream="funnels", funnels=5)
    with pytest.raises(ConfigError, match=r"404.*saved report 5 .*'bookmark not found'"):
        poll(standin, stream="insights", bookmark_id=5)


REFUSED = {
    "no_plan": "402: the project's plan does not include this API",
    "no_role": "403: the account has no role that may see its annotations in this project",
    "other_region": r"401: the credentials or the region are wrong. Check login, password and region \(us, eu, in\)",
}


@pytest.mark.parametrize("access", REFUSED)
def test_errors_of_annotations_name_the_remedy(access):
    with (
        StandIn(Project(), account=Account(access=access)) as server,
        pytest.raises(ConfigError, match=REFUSED[access]),
    ):
        poll(server, stream="annotations")


def test_annotations_need_no_query_plan():
    with StandIn(Project(), account=Account(access="no_query_plan")) as server:
        assert len(poll(server, stream="annotations")[0]) == 3


@pytest.mark.parametrize(
    "kind", ["cut_gzip", "no_trailer", "bad_crc", "html", "empty", "zeros", "reset", "short_length"]
)
@pytest.mark.parametrize("name", REPORTS)
def test_an_incomplete_answer_is_not_a_report(standin, name, kind):
    fault = Fault(kind, path=PATHS[name], size_bytes=4000)
    with pytest.raises(RetriableError):
        poll(standin, fault, stream=name, **NEEDED.get(name, {}))
    assert poll(standin, stream=name, **NEEDED.get(name, {}))[0]


def key(name, **options):
    return MixpanelSource(conn_id="c", stream=name, **NEEDED.get(name, {}) | options).stream_key


def test_other_options_of_a_query_are_another_stream():
    assert key("annotations") == "c.annotations"
    assert key("funnels") == key("funnels", funnels=[1]) == "c.funnels"
    assert key("insights", bookmark_id=7) == "c.insights.7"
    segments = [key("segmentation"), key("segmentation", on="x"), key("segmentation", where="x")]
    assert len({*segments, key("segmentation", event="b")}) == 4
    retention = [key("retention"), key("retention", event="x"), key("retention", interval_days=7)]
    assert len(set(retention)) == 3
    assert key("retention", interval_count=9) == key("retention")
    assert key("retention") == "c.retention.21487280"
