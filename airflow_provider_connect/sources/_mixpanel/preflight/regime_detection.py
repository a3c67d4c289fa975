"""Tells from a sample of events what a project's times mean: UTC, or what the clock of its zone showed.

In both regimes a day's ``time`` lies between the day's midnights, so times alone tell nothing. But each event also says
when Mixpanel received it, always in UTC. No event is received before it happened, and those of live devices are
received at once. So the smallest distance between the two, if it is the same at many times of the day, is the zone's
distance from UTC, or nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from airflow_provider_connect.sources._mixpanel.columns import Regime

_LOW_QUANTILE = 0.05
"""What is faster is taken for a device whose clock is wrong."""

_QUICK_SECONDS = 600
_MIN_EVENTS = 20
_MIN_QUARTERS = 6
"""In how many quarters of an hour there must be quick events. Of a few uploads a day, only the last events before each
are quick; of live devices there are some all day."""

_QUARTER = 900
_EARLY_SECONDS, _LATE_SECONDS = -300, 3000
"""How far from 0 the delay of quick events may be. No two zones that matter are closer than this range is wide."""

_HOURS_AHEAD = range(-12, 15)


class EventTimes(NamedTuple):
    """One event, in seconds since 1970.

    :param time: as exported: its meaning is what is asked.
    :param received: when Mixpanel received it (UTC).
    """

    time: int
    received: float


@dataclass(frozen=True)
class RegimeReading:
    """What the sample shows.

    :param regime: None if it does not tell.
    :param ahead_minutes: by how much times are ahead of UTC, about; None if that is not known.
    :param is_zones: whether the zone that was named is as far from UTC as the times are.
    :param why: what it was seen from, or why it does not tell.
    """

    regime: Regime | None
    reason: str
    ahead_minutes: int | None = None
    matches_zone: bool = False


def detect_regime(samples: Sequence[EventTimes], zone: str | None) -> RegimeReading:
    """Tell the regime of a project.

    :param samples: events of one day, in any order.
    :param zone: the project's zone as far as it is configured; None if nobody said.
    """
    count = len(samples)
    if count < _MIN_EVENTS:
        return RegimeReading(
            None, f"the sample has {count} events with time and mp_processing_time_ms, too few to tell"
        )
    delays = sorted(sample.received - sample.time for sample in samples)
    low = delays[int(count * _LOW_QUANTILE)]
    quick = [sample for sample in samples if abs(sample.received - sample.time - low) <= _QUICK_SECONDS]
    if len(quick) < _MIN_EVENTS or len({sample.time // _QUARTER for sample in quick}) < _MIN_QUARTERS:
        return RegimeReading(
            None,
            f"of {count:,} events too few were received at once, or all at about the same time of the day: it cannot "
            "be told how late they came from how their times are meant",
        )
    ahead = round(-low / _QUARTER) * (_QUARTER // 60)
    offsets = _offsets(quick, zone)
    if _fits(low, 0):
        return _near_utc(quick, count, zone, offsets)
    if any(offset != 0 and _fits(low, offset) for offset in offsets):
        why = f"{len(quick):,} of {count:,} events were received within minutes of their time on the clock of {zone}"
        return RegimeReading("project_local", why, ahead, matches_zone=True)
    return _elsewhere(count, low, ahead, zone)


def format_offset(minutes: int) -> str:
    """Return a distance from UTC in words."""
    hours, rest = divmod(abs(minutes), 60)
    return f"{hours}:{rest:02d} h {'ahead of' if minutes > 0 else 'behind'} UTC" if minutes else "at UTC"


def _fits(low: float, offset: float) -> bool:
    return _EARLY_SECONDS <= low + offset <= _LATE_SECONDS


def _near_utc(quick: Sequence[EventTimes], count: int, zone: str | None, offsets: set[float]) -> RegimeReading:
    why = f"{len(quick):,} of {count:,} events were received within minutes of their time in UTC"
    if any(offset != 0 and abs(offset) < _LATE_SECONDS - _EARLY_SECONDS for offset in offsets):
        return RegimeReading(None, f"{why}, and the clock of {zone} is too close to UTC to tell them apart")
    if zone is not None and offsets == {0.0} and not _is_utc(zone):
        return RegimeReading(
            None, f"{why}, but on that day the clock of {zone} showed UTC: check again when it does not"
        )
    return RegimeReading("utc", why, 0, matches_zone=offsets == {0.0})


def _elsewhere(count: int, low: float, ahead: int, zone: str | None) -> RegimeReading:
    """Read times that are neither near UTC nor near the zone."""
    if not _HOURS_AHEAD[0] * 60 <= ahead <= _HOURS_AHEAD[-1] * 60:
        return RegimeReading(None, f"even the quickest of {count:,} events are further from UTC than any zone")
    if low < 0:
        why = f"read as UTC, most of {count:,} events would have been received before they happened"
        return RegimeReading("project_local", why, ahead)
    zones = "" if zone is None else f", which {zone} is not"
    return RegimeReading(
        None,
        f"even the quickest of {count:,} events were received about {-ahead // 60}:{-ahead % 60:02d} h after their "
        f"time: either they come so late, or times are those of a zone so far behind UTC{zones}",
        ahead,
    )


def _offsets(samples: Sequence[EventTimes], zone: str | None) -> set[float]:
    """Return the zone's distances from UTC, in seconds, at what its clock would have shown."""
    if zone is None:
        return set()
    clock = ZoneInfo(zone)
    walls = (dt.datetime.fromtimestamp(hour * 3600, dt.UTC) for hour in {sample.time // 3600 for sample in samples})
    return {_seconds(wall.replace(tzinfo=clock)) for wall in walls}


def _is_utc(zone: str) -> bool:
    """Tell whether a zone is at UTC all year."""
    clock = ZoneInfo(zone)
    return not any(_seconds(dt.datetime(2026, month, 15, tzinfo=clock)) for month in range(1, 13))


def _seconds(moment: dt.datetime) -> float:
    offset = moment.utcoffset()
    return offset.total_seconds() if offset is not None else 0.0
