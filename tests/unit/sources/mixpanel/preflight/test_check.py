"""What a check of a connection finds, asks for and leaves alone."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.findings import Finding
from airflow_provider_connect.polling.quota.book import Hold, prefix_of
from airflow_provider_connect.sources._mixpanel import access
from airflow_provider_connect.sources._mixpanel.access import quota_of
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.preflight.check import MixpanelReport, check_connection
from airflow_provider_connect.sources._mixpanel.preflight.probe import clock_ahead_seconds
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from tests.equipment.mixpanel import ENGAGE, connection
from tests.equipment.quota import Keys
from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

CANARY = "canary-secret"
ELSEWHERE = Account(secret=CANARY, access="other_region")
AT_HOME = Account(secret=CANARY)
SMALL = Project(events_per_day=150)
NOW = dt.datetime(2026, 7, 22, 3, 0, tzinfo=dt.UTC)


class Region:
    """The stand-in under the name of a region."""

    def __init__(self, server: StandIn) -> None:
        self.server = server

    @property
    def asked(self) -> int:
        return sum(sum(by.values()) for by in self.server.stats["requests"].values())


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, StandIn]]:
    with StandIn(SMALL, account=ELSEWHERE) as us, StandIn(SMALL, account=ELSEWHERE) as eu, StandIn(SMALL) as india:
        yield {"us": us, "eu": eu, "in": india}


@pytest.fixture
def regions(servers: dict[str, StandIn], monkeypatch: pytest.MonkeyPatch) -> dict[str, Region]:
    """Mixpanel's regions, none of which knows the account; a test lets it into one."""
    for name, server in servers.items():
        monkeypatch.setitem(access.HOSTS, name, server.url)
        monkeypatch.setitem(access.QUERY_HOSTS, name, server.url)
        server.account = ELSEWHERE
        server.project = SMALL
        server.faults.replace([])
    return {name: Region(server) for name, server in servers.items()}


def to(region: str = "us", **extra: Any) -> Connection:
    fields = {"project_id": str(AT_HOME.project_id), "region": region} | extra
    return Connection(conn_id="m", conn_type="mixpanel", login=AT_HOME.username, password=CANARY, extra=fields)


def row(report: MixpanelReport, about: str) -> Finding:
    (found,) = (finding for finding in report.findings if finding.subject == about)
    return found


def levels(report: MixpanelReport) -> dict[str, str]:
    return {finding.subject: finding.level for finding in report.findings}


def test_a_connection_that_works_costs_one_request_which_other_tasks_see(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    before, keys, there = regions["us"].asked, Keys(), to()
    report = check_connection(there, store=keys)
    assert report.passed
    assert set(levels(report).values()) == {"ok"}
    assert regions["us"].asked == before + 1
    assert report.requests_by_api == {"export": 1}
    assert row(report, "quota").result.startswith("59 of 60 requests an hour are left")
    quota = quota_of(there, "export")
    assert quota is not None
    assert [key.removeprefix(prefix_of(quota)).partition("/")[0] for key in keys.all] == ["sent"]
    assert "Requests sent: 1 of the export." in str(report)
    assert str(report).startswith("Mixpanel (region 'us'), stream export, works.")


def test_a_project_of_another_region_is_found_there(regions: dict[str, Region]) -> None:
    regions["eu"].server.account = AT_HOME
    report = check_connection(to("us"), store=Keys())
    assert not report.passed
    assert (row(report, "credentials").level, row(report, "region").level) == ("ok", "problem")
    assert row(report, "region").result == "the project answers in 'eu'"
    assert row(report, "region").todo == "set region=eu in the connection"
    assert CANARY not in str(report)
    right = check_connection(to("eu"), store=Keys())
    assert right.passed


def test_credentials_that_no_region_knows_are_wrong(regions: dict[str, Region]) -> None:
    before = {name: region.asked for name, region in regions.items()}
    report = check_connection(to("in"), store=Keys())
    assert row(report, "credentials").level == "problem"
    assert "us and eu were tried" in row(report, "region").result
    assert {name: region.asked - before[name] for name, region in regions.items()} == {"us": 1, "eu": 1, "in": 1}
    assert CANARY not in str(report)


def test_a_failing_region_is_not_reported_as_rejecting(regions: dict[str, Region]) -> None:
    regions["eu"].server.faults.replace([Fault("status", status=503)])
    regions["eu"].server.account = AT_HOME
    report = check_connection(to("us"), store=Keys())
    unknown = [finding.result for finding in report.findings if finding.subject == "region"]
    assert any("region 'eu' gave no answer" in found and "503" in found for found in unknown)


def test_credentials_for_an_own_host_go_nowhere_else(regions: dict[str, Region]) -> None:
    before = {name: region.asked for name, region in regions.items()}
    with StandIn(SMALL, account=ELSEWHERE) as own:
        report = check_connection(connection(own), store=Keys())
    assert row(report, "credentials").level == "problem"
    assert "no other region was tried" in row(report, "region").result
    assert {name: region.asked for name, region in regions.items()} == before


@pytest.mark.parametrize("stream", ["engage", "insights", "segmentation"])
def test_a_plan_without_the_query_api_fails_its_streams_alone(regions: dict[str, Region], stream: Any) -> None:
    regions["us"].server.account = Account(secret=CANARY, access="no_query_plan")
    report = check_connection(to(), MixpanelOptions(stream=stream), store=Keys())
    assert levels(report) | {"plan": "problem", "credentials": "ok"} == levels(report)
    assert "Growth or Enterprise" in row(report, "plan").result
    assert report.requests_by_api == {"query": 1}
    assert check_connection(to(), store=Keys()).passed
    assert check_connection(to(), MixpanelOptions(stream="annotations"), store=Keys()).passed


def test_a_source_that_counts_days_needs_an_api_that_was_not_asked(regions: dict[str, Region]) -> None:
    regions["us"].server.account = Account(secret=CANARY, access="no_query_plan")
    report = check_connection(to(), MixpanelSource(split_rows=1_000_000), store=Keys())
    assert row(report, "split_rows").level == "unknown"
    assert '{"stream": "segmentation"}' in row(report, "split_rows").todo
    assert "split_rows" not in levels(check_connection(to(), MixpanelSource(), store=Keys()))


def test_an_account_without_a_role_is_told_from_wrong_credentials(regions: dict[str, Region]) -> None:
    regions["us"].server.account = Account(secret=CANARY, access="no_role")
    before = regions["eu"].asked
    report = check_connection(to(), store=Keys())
    assert levels(report) | {"role": "problem", "credentials": "ok", "project id": "unknown"} == levels(report)
    assert regions["eu"].asked == before


def test_another_projects_id_is_refused_with_both_causes(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    report = check_connection(to(project_id="7"), store=Keys())
    assert "check project_id" in row(report, "role").result
    assert not report.passed


def test_problems_of_the_connection_are_reported_without_a_request(regions: dict[str, Region]) -> None:
    before = regions["us"].asked
    report = check_connection(Connection(conn_id="m", login="me", extra={}), store=Keys())
    assert not report.passed
    assert "password is empty" in str(report)
    assert "no project_id" in str(report)
    assert regions["us"].asked == before


def test_a_refusal_for_the_limit_shows_its_counters_and_tells_the_tasks(regions: dict[str, Region]) -> None:
    keys = Keys()
    with StandIn(SMALL, account=AT_HOME, limits=Limits(queries_per_hour=1)) as busy:
        there = connection(busy)
        assert check_connection(there, store=keys).passed
        report = check_connection(there, store=keys)
    assert row(report, "quota").level == "later"
    assert "2/1 queries running in the last hour" in row(report, "quota").result
    assert any("/said/" in key for key in keys.all)


def test_a_used_up_hour_is_reported_without_a_request(regions: dict[str, Region]) -> None:
    keys, there, before = Keys(), to(), regions["us"].asked
    quota = quota_of(there, "export")
    assert quota is not None
    keys.add(prefix_of(quota) + Hold("other", time.time(), 60, 1).name)
    report = check_connection(there, store=keys)
    assert row(report, "quota").level == "later"
    assert "No request was sent" in row(report, "quota").result
    assert report.requests_by_api == {}
    assert regions["us"].asked == before


class Gone(Keys):
    """A store that cannot be reached."""

    def keys(self, prefix: str) -> list[str]:
        raise OSError("hush-hush")


def test_a_count_that_cannot_be_reached_does_not_hinder_the_check(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    for store in (Gone(), None):
        report = check_connection(to(), store=store)
        assert report.passed
        assert row(report, "quota").level == "unknown"
        assert "hush-hush" not in str(report)


def test_a_project_secret_without_a_project_leaves_no_keys_behind(regions: dict[str, Region]) -> None:
    regions["us"].server.account = Account(secret="-", project_secret=CANARY)
    keys = Keys()
    report = check_connection(Connection(conn_id="m", password=CANARY, extra={}), store=keys)
    assert report.passed, str(report)
    assert row(report, "project id").result == "not needed with a project secret"
    assert keys.all == set()


@pytest.mark.parametrize("seconds", [-3700, -40, 0, 40, 3700])
def test_a_clock_difference_is_reported(seconds: int) -> None:
    with StandIn(SMALL, now=lambda: dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)) as server:
        found = row(check_connection(connection(server)), "clock")
    if not seconds:
        assert found.level == "ok"
        return
    assert found.level == "note"
    assert "ahead of" if seconds > 0 else "behind" in found.result
    shown = int(found.result.split(" s ")[0].split()[-1].replace(",", ""))
    assert abs(shown - abs(seconds)) <= 2


@given(st.integers(-10_000, 10_000), st.floats(0, 30), st.floats(0, 0.999))
def test_a_clock_difference_is_never_more_than_the_true_one(ahead: int, took: float, part: float) -> None:
    """The server writes its date at some moment between question and answer, cut to the second."""
    true = NOW + dt.timedelta(seconds=took * part)
    written = true.strftime("%a, %d %b %Y %H:%M:%S GMT")
    shift = dt.timedelta(seconds=ahead)
    found = clock_ahead_seconds(written, NOW + shift, NOW + dt.timedelta(seconds=took) + shift)
    assert found is not None
    assert min(0, ahead) <= found <= max(0, ahead)
    assert abs(found) >= abs(ahead) - took - 1


@pytest.mark.parametrize("date", ["", "soon", "Thu, 99 Jul 2026 03:00:00 GMT"])
def test_without_a_date_the_clock_difference_is_unknown(date: str) -> None:
    assert clock_ahead_seconds(date, NOW, NOW) is None


PACIFIC = Project(events_per_day=150, regime="project_local", timezone="US/Pacific")
TIMES = "time zone and timestamps"


@pytest.mark.parametrize(
    ("project", "zone", "timestamps", "level", "todo"),
    [
        (PACIFIC, "US/Pacific", "project_local", "ok", ""),
        (PACIFIC, "US/Pacific", "utc", "problem", "timestamps=project_local"),
        (PACIFIC, "US/Pacific", None, "problem", "timestamps=project_local"),
        (PACIFIC, "UTC", None, "unknown", "look up the project's zone"),
        (SMALL, "US/Pacific", "utc", "ok", ""),
        (SMALL, "US/Pacific", "project_local", "problem", "timestamps=utc"),
        (SMALL, "UTC", None, "ok", ""),
        (
            Project(events_per_day=150, regime="project_local", timezone="Asia/Tokyo"),
            "US/Pacific",
            "project_local",
            "problem",
            "set zone",
        ),
        (Project(events_per_day=0), "US/Pacific", None, "problem", "day of creation"),
        (Project(events_per_day=0), "US/Pacific", "utc", "unknown", ""),
    ],
)
def test_times_are_compared_with_what_is_configured(
    regions: dict[str, Region], project: Project, zone: str, timestamps: Any, level: str, todo: str
) -> None:
    regions["us"].server.account = AT_HOME
    regions["us"].server.project = project
    source = MixpanelSource(zone=zone, timestamps=timestamps)
    found = row(check_connection(to(), source, store=Keys(), clock=lambda: NOW), TIMES)
    assert (found.level, todo in found.todo, bool(todo) == bool(found.todo)) == (level, True, True), found
    by_connection = to() if timestamps is None else to(timestamps=timestamps)
    assert row(check_connection(by_connection, MixpanelSource(zone=zone), clock=lambda: NOW), TIMES) == found


def test_the_values_of_events_stay_out_of_the_report(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    report = str(check_connection(to(), store=Keys(), clock=lambda: NOW))
    (line, *_) = SMALL.lines(NOW.date() - dt.timedelta(days=2))
    event = json.loads(line)
    for value in (event["event"], *(value for value in event["properties"].values() if isinstance(value, str))):
        assert len(value) < 3 or value not in report


def test_a_cut_export_is_a_smaller_sample_and_a_page_is_trouble(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    regions["us"].server.faults.replace([Fault("cut_gzip", at=0.9), Fault("html"), Fault("refuse")])
    assert check_connection(to(), store=Keys()).passed
    for told in ("the server failed", "without an answer"):
        report = check_connection(to(), store=Keys())
        assert not report.passed
        assert told in row(report, "answer").result


@pytest.mark.parametrize("kind", ["html_as_text", "error_document"])
def test_a_web_page_from_the_query_api_fails_the_check(regions: dict[str, Region], kind: str) -> None:
    regions["us"].server.account = AT_HOME
    assert check_connection(to(), MixpanelOptions(stream="cohorts"), store=Keys()).passed
    regions["us"].server.faults.replace([Fault(kind, path="/api/query/cohorts/list"), Fault(kind, path=ENGAGE)])
    assert not check_connection(to(), MixpanelOptions(stream="cohorts"), store=Keys()).passed


def test_the_page_shows_what_a_report_says(monkeypatch: pytest.MonkeyPatch) -> None:
    source = MixpanelSource(zone="US/Pacific", timestamps="utc")
    with StandIn(PACIFIC, account=AT_HOME, now=lambda: NOW) as server:
        monkeypatch.setitem(access.HOSTS, "us", server.url)
        report = check_connection(to(), source, store=Keys(), clock=lambda: NOW)
    page = (Path(__file__).parents[5] / "docs" / "mixpanel.md").read_text()
    lines = [
        (
            f"source: {finding.subject}",
            finding.level,
            f"{finding.result}. To do: {finding.todo}".removesuffix(". To do: "),
        )
        for finding in report.findings
    ]
    shown = re.findall(r"^(source: .+?) +\| (\w+) +\| (.+)$", page, re.MULTILINE)
    assert {level for _, level, _ in shown} == {"problem", "ok"}
    assert set(shown) <= set(lines)


def test_without_a_source_the_regime_and_its_remedy_are_reported(regions: dict[str, Region]) -> None:
    regions["us"].server.account = AT_HOME
    utc = row(check_connection(to(), store=Keys(), clock=lambda: NOW), TIMES)
    assert (utc.level, "timestamps=utc" in utc.todo) == ("ok", True)
    assert row(check_connection(to(timestamps="utc"), store=Keys(), clock=lambda: NOW), TIMES).todo == ""
    assert (
        row(check_connection(to(timestamps="project_local"), store=Keys(), clock=lambda: NOW), TIMES).level == "problem"
    )
    regions["us"].server.project = Project(events_per_day=150, regime="project_local", timezone="Asia/Tokyo")
    tokyo = row(check_connection(to(), store=Keys(), clock=lambda: NOW), TIMES)
    assert "9:00 h ahead of UTC" in tokyo.result
    assert "timestamps=project_local" in tokyo.todo
    assert "zone on each source" in tokyo.todo
    regions["us"].server.project = PACIFIC
    behind = row(check_connection(to(), store=Keys(), clock=lambda: NOW), TIMES)
    assert behind.level == "unknown"
    assert "about 7:00 h after their time" in behind.result
