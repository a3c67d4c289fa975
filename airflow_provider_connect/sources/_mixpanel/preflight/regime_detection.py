"""Detects the time regime from a sample of events: UTC, or the clock of the project's zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from airflow_provider_connect.sources._mixpanel.columns import Regime

_LOW_QUANTILE = 0.05
"""Share of shortest delays to ignore."""

_QUICK_SECONDS = 600
_MIN_EVENTS = 20
_MIN_QUARTERS = 6
"""Fewest quarter-hours with quick events."""

_QUARTER = 900
_EARLY_SECONDS, _LATE_SECONDS = -300, 3000
"""Allowed delay of quick events. Any two relevant zones differ by more than this range."""

_HOURS_AHEAD = range(-12, 15)


class EventTimes(NamedTuple):
    """Times of one event, in seconds since 1970.

    :param received: UTC.
    """

    time: int
    received: float


@dataclass(frozen=True)
class RegimeReading:
    """Result of a detection.

    :param regime: None if unknown.
    :param ahead_minutes: lead of the exported times over UTC.
    :param matches_zone: True if the zone has this lead.
    """

    regime: Regime | None
    reason: str
    ahead_minutes: int | None = None
    matches_zone: bool = False


def detect_regime(samples: Sequence[EventTimes], zone: str | None) -> RegimeReading:
    """Detect a project's time regime from one day's events, in any order."""
    count = len(samples)
    if count < _MIN_EVENTS:
        return RegimeReading(None, f"the sample has only {count} events with time and mp_processing_time_ms")
    delays = sorted(sample.received - sample.time for sample in samples)
    low_delay = delays[int(count * _LOW_QUANTILE)]
    quick_events = [sample for sample in samples if abs(sample.received - sample.time - low_delay) <= _QUICK_SECONDS]
    if len(quick_events) < _MIN_EVENTS or len({sample.time // _QUARTER for sample in quick_events}) < _MIN_QUARTERS:
        return RegimeReading(
            None,
            f"of {count:,} events too few were received immediately, or all of these at one time of the day. So delays "
            "cannot be told from a time zone",
        )
    ahead = round(-low_delay / _QUARTER) * (_QUARTER // 60)
    offsets = _offsets(quick_events, zone)
    if _offset_fits(low_delay, 0):
        return _reading_near_utc(quick_events, count, zone, offsets)
    if any(offset != 0 and _offset_fits(low_delay, offset) for offset in offsets):
        reason = (
            f"{len(quick_events):,} of {count:,} events were received within minutes of their time on the clock "
            f"of {zone}"
        )
        return RegimeReading("project_local", reason, ahead, matches_zone=True)
    return _reading_elsewhere(count, low_delay, ahead, zone)


def format_offset(minutes: int) -> str:
    """Format an offset from UTC, such as ``8:00 h behind UTC``."""
    hours, minutes_left = divmod(abs(minutes), 60)
    return f"{hours}:{minutes_left:02d} h {'ahead of' if minutes > 0 else 'behind'} UTC" if minutes else "at UTC"


def _offset_fits(low_delay: float, offset: float) -> bool:
    return _EARLY_SECONDS <= low_delay + offset <= _LATE_SECONDS


def _reading_near_utc(
    quick_events: Sequence[EventTimes], count: int, zone: str | None, offsets: set[float]
) -> RegimeReading:
    reason = f"{len(quick_events):,} of {count:,} events were received within minutes of their time in UTC"
    if any(offset != 0 and abs(offset) < _LATE_SECONDS - _EARLY_SECONDS for offset in offsets):
        return RegimeReading(None, f"{reason}, and the clock of {zone} is too close to UTC to distinguish them")
    if zone is not None and offsets == {0.0} and not _is_utc(zone):
        return RegimeReading(
            None, f"{reason}, but on that day the clock of {zone} showed UTC. Check again when it does not"
        )
    return RegimeReading("utc", reason, 0, matches_zone=offsets == {0.0})


def _reading_elsewhere(count: int, low_delay: float, ahead: int, zone: str | None) -> RegimeReading:
    if not _HOURS_AHEAD[0] * 60 <= ahead <= _HOURS_AHEAD[-1] * 60:
        return RegimeReading(None, f"even the quickest of {count:,} events are further from UTC than any zone")
    if low_delay < 0:
        reason = f"in UTC, most of {count:,} events would have been received before they happened"
        return RegimeReading("project_local", reason, ahead)
    zones = "" if zone is None else f", which {zone} is not"
    return RegimeReading(
        None,
        f"even the quickest of {count:,} events were received about {-ahead // 60}:{-ahead % 60:02d} h after their "
        f"time. Either they are that late, or the project's zone is that far behind UTC{zones}",
        ahead,
    )


def _offsets(samples: Sequence[EventTimes], zone: str | None) -> set[float]:
    if zone is None:
        return set()
    clock = ZoneInfo(zone)
    walls = (dt.datetime.fromtimestamp(hour * 3600, dt.UTC) for hour in {sample.time // 3600 for sample in samples})
    return {_seconds(wall.replace(tzinfo=clock)) for wall in walls}


def _is_utc(zone: str) -> bool:
    clock = ZoneInfo(zone)
    return not any(_seconds(dt.datetime(2026, month, 15, tzinfo=clock)) for month in range(1, 13))


def _seconds(moment: dt.datetime) -> float:
    offset = moment.utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
