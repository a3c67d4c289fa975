"""A large day in several exports: every event is in exactly one of them, whatever it looks like."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, PollContext, Poller
from airflow_provider_connect.sources._mixpanel.splitting import (
    MAX_PARTS,
    find_cut_times,
    join_expressions,
    part_conditions,
)
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day
from tests.equipment.mixpanel import connection
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.expressions import parse
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.reports import Reports
from tests.standins.mixpanel.server import StandIn

DAY = Day(date=dt.date(2026, 3, 1))
ZONE = "America/Los_Angeles"
SPRING = Day(date=dt.date(2026, 3, 8), zone=ZONE)
AUTUMN = Day(date=dt.date(2026, 11, 1), zone=ZONE)
EVENTS = 600

HOURS = st.dictionaries(st.integers(0, 23), st.integers(0, 5000)).map(
    lambda found: {f"2026-03-01 {hour:02}:00:00": count for hour, count in found.items()}
)
TIMES = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.integers(-(10**10), 10**10),
    st.integers(0, 86_400_000).map(lambda ms: int(DAY.start.timestamp()) * 1000 + ms),
    st.integers(0, 86_400).map(lambda second: int(DAY.start.timestamp()) + second),
)


@given(hours=HOURS, split_rows=st.integers(1, 9000), time=TIMES, plan=st.sampled_from([None, "free", "paid"]))
def test_every_event_is_in_exactly_one_part(
    hours: dict[str, int], split_rows: int, time: Any, plan: str | None
) -> None:
    where = 'properties["plan"] == "free" or properties["plan"] == "paid"'
    row = {"time": time} | ({"plan": plan} if plan else {})
    parts = part_conditions(find_cut_times(DAY, "utc", hours, split_rows)) or [None]
    found = [parse(join_expressions(where, part) or "") for part in parts]
    assert sum(wants(row) for wants in found) == int(plan is not None)


@given(hours=HOURS, split_rows=st.integers(1, 9000))
def test_a_part_is_not_larger_than_it_needs_to_be(hours: dict[str, int], split_rows: int) -> None:
    cuts = find_cut_times(DAY, "utc", hours, split_rows)
    total, hour = sum(hours.values()), max(hours.values(), default=0)
    assert cuts == sorted(set(cuts))
    assert len(cuts) < MAX_PARTS
    sizes = Counter(dict.fromkeys(range(len(cuts) + 1), 0))
    for label, count in hours.items():
        sizes[sum(label.replace(" ", "T") >= mark for mark in cuts)] += count
    if total <= split_rows:
        assert not cuts
    else:
        # A cut is at most half an hour's worth away from where it is due, on either side.
        assert max(sizes.values()) <= max(split_rows, total / MAX_PARTS) + hour


def test_a_day_that_is_spread_evenly_is_cut_evenly() -> None:
    hours = {f"2026-03-01 {hour:02}:00:00": 100 for hour in range(24)}
    assert find_cut_times(DAY, "utc", hours, 2400) == []
    assert find_cut_times(DAY, "utc", hours, 2399) == ["2026-03-01T12:00:00"]
    assert [mark[11:13] for mark in find_cut_times(DAY, "utc", hours, 600)] == ["06", "12", "18"]


def test_an_hour_that_cannot_be_cut_stays_whole() -> None:
    assert find_cut_times(DAY, "utc", {"2026-03-01 07:00:00": 9000}, 10) == []
    rest = {f"2026-03-01 {hour:02}:00:00": 1 for hour in range(8, 24)}
    cuts = find_cut_times(DAY, "utc", {"2026-03-01 07:00:00": 9000} | rest, 100)
    assert cuts == ["2026-03-01T08:00:00"], "the little that follows a large hour is not cut up for it"


def test_a_day_that_was_late_is_cut_into_twice_as_many_parts() -> None:
    hours = {f"2026-03-01 {hour:02}:00:00": 100 for hour in range(24)}
    assert [len(find_cut_times(DAY, "utc", hours, None, more)) + 1 for more in (0, 1, 2, 4, 8, 16, 24)] == [
        1,
        2,
        4,
        8,
        16,
        24,
        24,
    ]
    assert len(find_cut_times(DAY, "utc", hours, 600, 1)) == 3, "split_rows asks for more parts"


def test_hours_that_leave_few_cuts_are_cut_as_finely_as_it_takes() -> None:
    hours = {"2026-03-01 07:00:00": 9000} | {f"2026-03-01 {hour:02}:00:00": 500 for hour in range(8, 24)}
    found = [len(find_cut_times(DAY, "utc", hours, None, more)) + 1 for more in range(1, 25)]
    assert all(now > before for before, now in enumerate(found[:8], start=1))
    assert find_cut_times(DAY, "utc", {"2026-03-01 07:00:00": 9000}, None, 1) == []


@pytest.mark.parametrize(("day", "regime", "mark"), [
    (SPRING, "project_local", "2026-03-08T12:00:00"),
    (SPRING, "utc", "2026-03-08T19:00:00"),
    (AUTUMN, "utc", "2026-11-01T20:00:00"),
])  # fmt: skip
def test_marks_are_written_as_the_regime_times_events(day: Day, regime: Any, mark: str) -> None:
    hours = {f"{day.date} 03:00:00": 10, f"{day.date} 12:00:00": 10}
    assert find_cut_times(day, regime, hours, 10) == [mark]


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    project = Project(events_per_day=EVENTS, duplicates_per_day=40, missing_ids_per_day=7, late_per_day=5)
    with StandIn(project) as server:
        yield server


def polled(poller: Poller, day: Day = DAY) -> tuple[list[list[dict[str, Any]]], list[Tally], list[InputPartition]]:
    """Return the rows, the counts and the partitions of a day, by part."""
    parts = poller.plan([day])
    tallies = [Tally() for _ in parts]
    rows = [
        [row for _, batch in poller.poll(part, tally) for row in batch.to_pylist()]
        for part, tally in zip(parts, tallies, strict=True)
    ]
    return rows, tallies, parts


def whole(rows: list[list[dict[str, Any]]]) -> tuple[int, str]:
    """Return how many rows a day has, and a digest of them in any order."""
    lines = sorted(json.dumps(row, sort_keys=True, default=str) for part in rows for row in part)
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def opened(standin: StandIn, **options: Any) -> Poller:
    return MixpanelSource(**options).open(connection(standin), PollContext())


@pytest.mark.parametrize("regime", ["utc", "project_local"])
@pytest.mark.parametrize("day", [DAY, SPRING, AUTUMN], ids=str)
def test_a_split_day_has_the_rows_of_the_whole_one(standin: StandIn, regime: Any, day: Day) -> None:
    standin.project = Project(
        regime=regime, timezone=day.zone, events_per_day=EVENTS, duplicates_per_day=40, missing_ids_per_day=7
    )
    options: dict[str, Any] = {"timestamps": regime, "zone": day.zone}
    unsplit, one, _ = polled(opened(standin, **options), day)
    split, several, parts = polled(opened(standin, **options, split_rows=200), day)
    assert len(parts) in (3, 4)
    assert [part.index for part in parts] == list(range(len(parts)))
    assert whole(split) == whole(unsplit)
    assert sum(map(len, split)) > 0
    assert sum(tally.counts["duplicates"] for tally in several) == one[0].counts["duplicates"] > 0
    assert all(len(part) for part in split)


def test_a_filtered_day_is_split_by_its_own_count(standin: StandIn) -> None:
    standin.project = Project(events_per_day=EVENTS, duplicates_per_day=40)
    options = {"event": ["Page View", "🛒"], "where": 'properties["$browser"] == "Chrome"'}
    unsplit, _, _ = polled(opened(standin, **options))
    split, _, parts = polled(opened(standin, **options, split_rows=len(unsplit[0]) // 2))
    assert len(parts) in (2, 3)
    assert whole(split) == whole(unsplit)


def test_an_event_with_an_unlisted_name_is_in_a_part(standin: StandIn) -> None:
    standin.project = Project(events_per_day=EVENTS)
    known, standin.reports = standin.reports, Reports(unlisted=frozenset({"Page View"}))
    try:
        split, _, parts = polled(opened(standin, split_rows=100))
    finally:
        standin.reports = known
    assert len(parts) > 2
    assert whole(split) == whole(polled(opened(standin))[0])


def test_a_small_day_is_one_export_and_is_counted_once(standin: StandIn) -> None:
    standin.project = Project(events_per_day=EVENTS)
    before = standin.stats["requests"]
    poller, tally = opened(standin, split_rows=EVENTS), Tally()
    assert poller.count(DAY, tally) == VendorCount(EVENTS, is_least=True)
    (part,) = poller.plan([DAY])
    assert set(part.params) == {"from_date", "to_date", "timestamps"}
    asked = {
        name: sum(by.values()) - sum(before.get(name, {}).values()) for name, by in standin.stats["requests"].items()
    }
    assert (asked["events/names"], asked["events"]) == (1, 1)
    assert tally.requests == len(tally.sent) == 2


def test_the_same_count_makes_the_same_plan(standin: StandIn) -> None:
    standin.project = Project(events_per_day=EVENTS)
    poller = opened(standin, split_rows=100)
    assert poller.plan([DAY]) == poller.plan([DAY]) == opened(standin, split_rows=100).plan([DAY])


@pytest.mark.parametrize("fault", [
    Fault("status", status=500),
    Fault("status", status=429, headers={"Retry-After": "3"}),
    Fault("cut_chunked"),
    Fault("terminated_early"),
    Fault("cut_last_line"),
    Fault("no_trailer"),
], ids=lambda fault: f"{fault.kind}{fault.status if fault.kind == 'status' else ''}")  # fmt: skip
def test_a_part_that_fails_fails_as_a_day_does(standin: StandIn, fault: Fault) -> None:
    standin.project = Project(events_per_day=EVENTS)
    poller = opened(standin, split_rows=200)
    parts = poller.plan([DAY])
    standin.faults.replace([Fault("none"), fault])
    outcomes: list[int | str] = []
    for part in parts:
        try:
            outcomes.append(sum(batch.num_rows for _, batch in poller.poll(part, Tally())))
        except RetriableError as error:
            outcomes.append(type(error).__name__)
    assert [type(outcome) for outcome in outcomes] == [int, str, int]
    again = sum(batch.num_rows for _, batch in poller.poll(parts[1], Tally()))
    assert again + sum(outcome for outcome in outcomes if isinstance(outcome, int)) == EVENTS


def test_split_rows_with_incompatible_options_is_refused() -> None:
    with pytest.raises(ConfigError, match="split_rows: with where, Mixpanel counts one event at a time"):
        MixpanelSource(split_rows=10, where='properties["a"] == 1')
    with pytest.raises(ConfigError, match="split_rows: stream 'engage' does not use it"):
        MixpanelSource(stream="engage", split_rows=10)
    assert MixpanelSource(split_rows=10, where='properties["a"] == 1', event="a").counts_first


def test_parts_are_polled_side_by_side_but_days_are_not_more() -> None:
    days = [Day(date=dt.date(2026, 3, day)) for day in range(1, 8)]
    assert MixpanelSource().requests_at_once(days) == 4
    assert MixpanelSource(split_rows=9).requests_at_once(days[:1]) == 4
    assert MixpanelSource(split_rows=9).requests_at_once(days) == 16


def test_a_random_day_is_cut_the_same_whatever_the_order_of_hours() -> None:
    hours = {f"2026-03-01 {hour:02}:00:00": hour * 7 % 5 for hour in range(24)}
    shuffled = random.Random(1).sample(sorted(hours.items()), len(hours))
    assert find_cut_times(DAY, "utc", dict(shuffled), 9) == find_cut_times(DAY, "utc", hours, 9)
