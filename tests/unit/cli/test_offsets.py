"""Gaps are exactly the days that are missing between the first one wanted and the last that is done."""

from __future__ import annotations

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.cli.offsets import gaps, row
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.window import DaySet
from tests.equipment.airflow.connectors import TinySink, TinySource

SOURCE, SINK = TinySource(conn_id="c"), TinySink(table="t")
FIRST = dt.date(2026, 10, 1)


def day(number: int) -> dt.date:
    return FIRST + dt.timedelta(days=number)


@given(st.sets(st.integers(0, 30)), st.none() | st.integers(0, 30))
def test_gaps_hold_what_is_missing_and_nothing_else(done: set[int], origin: int | None) -> None:
    start = None if origin is None else day(origin)
    offset = Offset.of(SOURCE, SINK, DaySet.of(day(number) for number in done), start)
    found = {day for first, last in gaps(offset) for day in DaySet(ranges=((first, last),))}
    first = min(done, default=0) if origin is None else origin
    assert found == {day(number) for number in range(first, max(done, default=0)) if number not in done}
    assert row(offset)["missing"] == len(found)


def test_a_row_tells_position_and_last_day_apart() -> None:
    shown = row(Offset.of(SOURCE, SINK, DaySet.of([day(0), day(1), day(5)]), day(0)))
    assert (shown["position"], shown["last"], shown["days"], shown["missing"]) == (day(1), day(5), 3, 3)
