"""The contract of ledgers: one row of a day's spans, and ledgers that keep one increment a day."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.ledger import Ledger, LedgerRow, day_row
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import DaySet

MONDAY, TUESDAY = dt.date(2026, 10, 5), dt.date(2026, 10, 6)


def row(number: int | None, rows: int, generation: int = 1, run: str | None = "dag/run-1/task") -> LedgerRow:
    span = None if number is None else Span(number=number, after=str(number - 1), to=str(number))
    counts = {"rows_read": rows + 1, f"only_{number}": 1}
    return LedgerRow(
        day=MONDAY, generation=generation, token=f"t{number}", run=run, rows=rows, counts=counts, span=span
    )


class LedgerOfOneRow(Ledger):
    """A ledger of a package that knows one increment a day."""

    def __init__(self, row: LedgerRow | None) -> None:
        self._row = row

    def row(self, day: dt.date) -> LedgerRow | None:
        return self._row

    def days(self) -> DaySet:
        return DaySet()

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        return None


def test_a_day_s_row_is_the_sum_of_its_spans() -> None:
    first, second, third = row(4, 10, generation=3), row(5, 1), row(7, 0)
    summed = day_row([third, first, second])
    assert summed is not None
    assert (summed.rows, summed.generation, summed.span_number, summed.token) == (11, 3, 7, "t7")
    assert summed.counts == {"rows_read": 14, "only_4": 1, "only_5": 1, "only_7": 1}
    assert day_row([first]) is first
    assert day_row([]) is None


def test_a_ledger_of_one_increment_a_day_repeats_the_run_s_own() -> None:
    own = LedgerOfOneRow(row(4, 10)).newest_increment(MONDAY, "dag/run-1/task")
    assert own is not None
    assert own.span is not None
    assert own.span.belongs_to("dag/run-1/task")


@pytest.mark.parametrize(("run", "named"), [("dag/run-1/task", "run dag/run-1/task"), ("erase/3", "an unknown run")])
def test_a_ledger_of_one_increment_a_day_refuses_another_run(run: str, named: str) -> None:
    """The rows of the day's increment would be lost if another replaced them."""
    with pytest.raises(ConfigError, match=f"day {MONDAY} has an increment of {named} already"):
        LedgerOfOneRow(row(4, 10, run=run)).newest_increment(MONDAY, "dag/run-2/task")


@pytest.mark.parametrize("found", [None, row(None, 3), row(4, 10)])
def test_a_ledger_of_one_increment_a_day_gives_a_new_day_the_newest(found: LedgerRow | None) -> None:
    assert LedgerOfOneRow(found).newest_increment(TUESDAY, "dag/run-2/task") == found
