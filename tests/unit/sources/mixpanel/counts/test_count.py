"""Mixpanel's own count of a day: which day, which events, and what it costs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import connection
from tests.standins.mixpanel.access import Account
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.reports import Reports
from tests.standins.mixpanel.server import StandIn

ZONE = "America/Los_Angeles"
SPRING, AUTUMN = (Day(date=date, zone=ZONE) for date in (dt.date(2026, 3, 8), dt.date(2026, 11, 1)))
DAY = Day(date=dt.date(2026, 3, 1))
EVENTS = "/api/query/events"


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(Project(events_per_day=120, duplicates_per_day=30, missing_ids_per_day=5)) as server:
        yield server


def counted(standin: StandIn, day: Day = DAY, *faults: Fault, **options: Any) -> tuple[VendorCount, int]:
    """Return the count, and how many requests it took."""
    standin.faults.replace(faults)
    source, tally = MixpanelSource(**options), Tally()
    with source.open(connection(standin), PollContext()) as poller:
        count = poller.count(day, tally)
    assert tally.requests <= source.requests_to_count([day])
    return count, tally.requests


def rows_of(standin: StandIn, day: Day, **options: Any) -> int:
    standin.faults.replace([])
    with MixpanelSource(**options).open(connection(standin), PollContext()) as poller:
        return sum(batch.num_rows for part in poller.plan([day]) for _, batch in poller.poll(part, Tally()))


@pytest.mark.parametrize("split_rows", [None, 10**6])
@pytest.mark.parametrize("regime", ["utc", "project_local"])
@pytest.mark.parametrize("day", [SPRING, AUTUMN, Day(date=dt.date(2026, 5, 1), zone=ZONE)], ids=str)
def test_the_count_is_of_the_same_day_as_the_rows_in_both_regimes(
    standin: StandIn, regime: Any, day: Day, split_rows: int | None
) -> None:
    kept, standin.project = standin.project, Project(regime=regime, timezone=ZONE, events_per_day=120, seed=3)
    options = {"timestamps": regime, "zone": ZONE}
    try:
        count, _ = counted(standin, day, split_rows=split_rows, **options)
        assert count.rows == rows_of(standin, day, **options) > 0
    finally:
        standin.project = kept


def test_duplicates_are_in_neither_figure(standin: StandIn) -> None:
    assert counted(standin)[0].rows == rows_of(standin, DAY) == 120
    assert rows_of(standin, DAY, deduplicate="off") == 150


@pytest.mark.parametrize("options", [
    {"event": ["Page View", "Order Completed"]},
    {"event": ["Page View", "Page View", "never"]},
    {"event": ["Page View", "Button Clicked"], "where": 'properties["$browser"] == "Chrome"'},
    {"event": "Page View", "where": 'properties["$browser"] == "Chrome"', "split_rows": 10**6},
], ids=str)  # fmt: skip
def test_filters_narrow_the_count_as_they_narrow_the_rows(standin: StandIn, options: dict[str, Any]) -> None:
    count, requests = counted(standin, **options)
    assert count == VendorCount(rows_of(standin, DAY, **options))
    assert requests == (len(options["event"]) if "where" in options and isinstance(options["event"], list) else 1)


def test_unlisted_events_may_exceed_the_count(standin: StandIn) -> None:
    kept, standin.reports = standin.reports, Reports(unlisted=frozenset({"Page View"}))
    try:
        count, _ = counted(standin)
    finally:
        standin.reports = kept
    assert 0 < count.rows < 120
    assert count.is_least


@pytest.mark.parametrize(("options", "is_least"), [
    ({}, True), ({"event": "a"}, False), ({"event": "a", "deduplicate": "off"}, True),
])  # fmt: skip
def test_a_day_may_have_more_where_mixpanel_does_not_count_all(
    standin: StandIn, options: dict[str, Any], is_least: bool
) -> None:
    assert counted(standin, **options)[0].is_least is is_least


def test_names_are_listed_once_a_job_and_asked_for_in_groups(standin: StandIn) -> None:
    tally = Tally()
    with MixpanelSource().open(connection(standin), PollContext()) as poller:
        for day in (1, 2, 3):
            poller.count(Day(date=dt.date(2026, 3, day)), tally)
    assert tally.requests == 1 + 3
    names = [f"event {number}" for number in range(81)]
    assert counted(standin, event=names) == (VendorCount(0), 3)
    assert MixpanelSource(event=names).requests_to_count([DAY, DAY]) == 6
    assert MixpanelSource(event=names, where="true").requests_to_count([DAY]) == 81
    assert MixpanelSource().requests_to_count([DAY, DAY]) == 16


@pytest.mark.parametrize(("account", "says"), [
    (Account(access="no_query_plan"), "402.*plan does not include the Query API"),
    (Account(access="no_role"), "403.*no role"),
])  # fmt: skip
def test_counting_without_plan_or_role_is_a_config_error(account: Account, says: str) -> None:
    with StandIn(Project(events_per_day=1), account=account) as server, pytest.raises(ConfigError, match=says):
        counted(server)


@pytest.mark.parametrize("split_rows", [None, 10])
@pytest.mark.parametrize(("fault", "error"), [
    (Fault("status", path=EVENTS, status=500), RetriableError),
    (Fault("cut_chunked", path=EVENTS), RetriableError),
    (Fault("html", path=EVENTS), RetriableError),
    (Fault("other_day", path=EVENTS), RetriableError),
    (Fault("error_document", path=EVENTS), RetriableError),
    (
        Fault("status", path=EVENTS, status=429, body="61/60 queries running in the last hour"),
        QuotaError,
    ),
    (Fault("status", path=f"{EVENTS}/names", status=400), ConfigError),
], ids=lambda value: value.kind if isinstance(value, Fault) else "")  # fmt: skip
def test_an_answer_that_is_not_a_count_is_refused(
    standin: StandIn, fault: Fault, error: type[ConnectError], split_rows: int | None
) -> None:
    with pytest.raises(error):
        counted(standin, DAY, fault, split_rows=split_rows)
