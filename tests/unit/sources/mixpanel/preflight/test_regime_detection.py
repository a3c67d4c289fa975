"""What a sample of events tells of a project's times, and when it must not pretend to know."""

from __future__ import annotations

import datetime as dt
import random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.sources._mixpanel.preflight.regime_detection import (
    EventTimes,
    detect_regime,
    format_offset,
)

DATES = st.dates(dt.date(2025, 1, 1), dt.date(2026, 12, 31))
AWAY = (
    "US/Pacific",
    "America/New_York",
    "America/St_Johns",
    "Europe/Berlin",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Pacific/Apia",
)
ZONES = st.sampled_from(AWAY)
SEEDS = st.integers(0, 1 << 32)


def day_of(
    date: dt.date, zone: str, seed: int, *, local: bool, live: float = 0.5, events: int = 400
) -> list[EventTimes]:
    """One day as Mixpanel exports it: ``live`` events are received within minutes, the others up to days late."""
    rng = random.Random(seed)
    clock = ZoneInfo(zone if local else "UTC")
    begin, end = (dt.datetime.combine(date + dt.timedelta(days=n), dt.time(), clock).timestamp() for n in (0, 1))
    samples = []
    for _ in range(events):
        at = rng.uniform(begin, end)
        offset = dt.datetime.fromtimestamp(at, clock).utcoffset() or dt.timedelta()
        late = rng.expovariate(1 / 60) if rng.random() < live else rng.uniform(0, 5 * 86_400)
        samples.append(EventTimes(int(at + offset.total_seconds()), at + late))
    return samples


@given(date=DATES, zone=ZONES, seed=SEEDS, live=st.floats(0.3, 1))
def test_days_of_live_events_show_their_regime_in_every_zone_also_where_clocks_change(
    date: dt.date, zone: str, seed: int, live: float
) -> None:
    local = detect_regime(day_of(date, zone, seed, local=True, live=live), zone)
    assert (local.regime, local.matches_zone) == ("project_local", True), local.reason
    utc = detect_regime(day_of(date, zone, seed, local=False, live=live), zone)
    assert (utc.regime, utc.ahead_minutes) == ("utc", 0), utc.reason


@given(
    date=DATES,
    zone=ZONES,
    seed=SEEDS,
    uploads=st.lists(st.integers(0, 23), min_size=1, max_size=2),
    local=st.booleans(),
)
def test_a_few_uploads_a_day_never_pass_for_the_other_regime(
    date: dt.date, zone: str, seed: int, uploads: list[int], local: bool
) -> None:
    """Each event is received with the next upload after it."""
    samples = []
    for sample in day_of(date, zone, seed, local=local, live=1.0):
        waits = [(hour * 3600 - sample.received) % 86_400 for hour in uploads]
        samples.append(EventTimes(sample.time, sample.received + min(waits)))
    assert detect_regime(samples, zone).regime in (None, "project_local" if local else "utc")


@given(date=DATES, zone=ZONES, seed=SEEDS)
def test_without_a_zone_no_wrong_regime_is_reported(date: dt.date, zone: str, seed: int) -> None:
    utc = detect_regime(day_of(date, zone, seed, local=False), None)
    assert utc.regime == "utc"
    local = detect_regime(day_of(date, zone, seed, local=True), None)
    offset = dt.datetime.combine(date, dt.time(12), ZoneInfo(zone)).utcoffset() or dt.timedelta()
    # Behind UTC it could be late events, too.
    assert local.regime == ("project_local" if offset > dt.timedelta() else None)
    assert local.ahead_minutes is not None
    assert abs(local.ahead_minutes - offset.total_seconds() / 60) <= 75, "the clock may change on that day"


@pytest.mark.parametrize("zone", ["US/Pacific", "Europe/Berlin", "UTC"])
def test_times_of_a_zone_that_is_not_the_configured_one_are_named(zone: str) -> None:
    reading = detect_regime(day_of(dt.date(2026, 3, 1), "Asia/Tokyo", 1, local=True), zone)
    assert (reading.regime, reading.ahead_minutes, reading.matches_zone) == ("project_local", 540, False)
    assert format_offset(540) == "9:00 h ahead of UTC"
    assert format_offset(-210) == "3:30 h behind UTC"


def test_a_zone_at_utc_hides_the_regime_until_its_clock_changes() -> None:
    winter, summer = dt.date(2026, 1, 20), dt.date(2026, 7, 20)
    hidden = detect_regime(day_of(winter, "Europe/London", 1, local=True), "Europe/London")
    assert hidden.regime is None
    assert "Check again when it does not" in hidden.reason
    assert detect_regime(day_of(summer, "Europe/London", 1, local=True), "Europe/London").regime == "project_local"
    assert detect_regime(day_of(summer, "Europe/London", 1, local=False), "Europe/London").regime == "utc"
    assert detect_regime(day_of(winter, "UTC", 1, local=True), "UTC").regime == "utc", "both mean the same"


def test_few_events_leave_the_regime_unknown() -> None:
    day = day_of(dt.date(2026, 3, 1), "US/Pacific", 1, local=True, live=1.0)
    busy = day_of(dt.date(2026, 3, 1), "US/Pacific", 1, local=True, live=1.0, events=4000)
    for samples in ([], day[:19], sorted(busy)[:150]):  # the last of them: all of less than an hour
        assert detect_regime(samples, "US/Pacific").regime is None
    assert detect_regime(day[:60], "US/Pacific").regime == "project_local"


def test_some_devices_with_wrong_clocks_change_nothing() -> None:
    day = day_of(dt.date(2026, 3, 1), "US/Pacific", 1, local=False)
    day[:8] = [EventTimes(sample.time, sample.received - 86_400) for sample in day[:8]]
    assert detect_regime(day, "US/Pacific").regime == "utc"
