"""Where an increment begins after an alarm about lost rows was answered."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.ledger import LedgerRow
from airflow_provider_connect.stage.spans import Restart, Span, next_span

MONDAY = dt.date(2026, 10, 5)
TUESDAY = dt.date(2026, 10, 6)
NEWEST = LedgerRow(day=MONDAY, generation=1, token="t", rows=1, span=Span(number=3, after="f", to="k"))


@pytest.mark.parametrize(
    ("restart", "after"),
    [
        (None, "k"),
        (Restart(3, "k", "r"), "r"),
        (Restart(3, "k", None), None),
        (Restart(2, "k", "r"), "k"),
        # A target that was loaded anew counts its increments from 1 again: this is another stream's third.
        (Restart(3, "z", "r"), "k"),
    ],
)
def test_an_answer_counts_for_the_very_increment_that_the_alarm_was_about(restart: Restart | None, after: str) -> None:
    span = next_span(NEWEST, TUESDAY, "dag/run/task", lambda begin, end: f"{begin}+", restart)
    assert span == Span(number=4, after=after, to=f"{after}+", run="dag/run/task")
