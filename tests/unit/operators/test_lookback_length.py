"""How many days ``lookback_days="measured"`` finds: as many as the rows of the last weeks came late, and no fewer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.capabilities.source import CountsLate
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.lookback_length import days_to_measure, measure_lookback, probe_days
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task

TODAY = Day(date=dt.date(2026, 10, 5))
BEFORE = days_to_measure([TODAY])  # 24 days: of a daily schedule, the first 14 were loaded as the 10th before
HOUR = dt.timedelta(hours=1)
MILLION = 1_000_000


def row(day: Day, late: Sequence[int], *, age: int = 10, rows: int = MILLION) -> LedgerRow:
    """Return what the ledger has of a day.

    :param late: how many rows came after one day more, after two, …
    :param age: how many days after its end it was polled last.
    """
    counts = {"late_1_days": 0} | {f"late_{n}_days": each for n, each in enumerate(late, start=1) if each}
    polled_at = Day(date=day.date + ONE_DAY * age, zone=day.zone).end + HOUR
    return LedgerRow(day=day.date, generation=1, token="t", rows=rows, polled_at=polled_at, counts=counts)


def whole(late: Sequence[int], days: int = 14) -> list[LedgerRow]:
    return [row(day, late) for day in BEFORE[14 - days : 14]]


@pytest.mark.parametrize(
    ("late", "found"),
    [
        ([], 1),
        ([100], 1),
        ([101], 2),
        ([100_000, 5_000, 101, 100, 100], 4),
        ([5_000] * 5, 6),
        ([5_000] * 10, 10),
    ],
)
def test_the_lookback_is_the_shortest_that_misses_one_row_in_ten_thousand_at_most(late: list[int], found: int) -> None:
    assert measure_lookback(BEFORE, whole(late)).days == found


LATE = st.lists(st.integers(0, 5_000), max_size=10).map(lambda found: sorted(found, reverse=True))
ROWS = st.builds(
    lambda days, late, ages: [
        row(day, each, age=age) for day, each, age in zip(BEFORE, late, ages, strict=True) if day in days
    ],
    st.sets(st.sampled_from(BEFORE)),
    st.lists(LATE, min_size=24, max_size=24),
    st.lists(st.integers(1, 12), min_size=24, max_size=24),
)


@given(rows=ROWS)
def test_the_lookback_is_within_bounds_and_misses_few_rows_of_whole_days(rows: list[LedgerRow]) -> None:
    found = measure_lookback(BEFORE, rows).days
    assert 1 <= found <= 10
    loaded = [each for each in rows if each.polled_at >= Day(date=each.day + 10 * ONE_DAY).end][-14:]
    if len(loaded) < 7:
        assert found == 10
    elif found < 10:
        left = sum(each.counts.get(f"late_{found}_days", 0) for each in loaded)
        assert left * 10_000 <= sum(each.rows for each in loaded)


@given(rows=ROWS, at=st.integers(0, 23), n=st.integers(1, 10), more=st.integers(1, 50_000))
def test_more_late_rows_never_shorten_the_lookback(rows: list[LedgerRow], at: int, n: int, more: int) -> None:
    fewer = measure_lookback(BEFORE, rows).days
    if at < len(rows):
        counts = dict(rows[at].counts)
        for name in (f"late_{each}_days" for each in range(1, n + 1)):
            counts[name] = counts.get(name, 0) + more
        rows[at] = rows[at].model_copy(update={"counts": counts})
    assert measure_lookback(BEFORE, rows).days >= fewer


@given(late=st.lists(LATE, min_size=24, max_size=24))
def test_a_younger_day_only_lengthens_the_lookback(late: list[list[int]]) -> None:
    loaded = [row(day, each) for day, each in zip(BEFORE[:14], late[:14], strict=True)]
    young = [row(day, each[:4], age=5) for day, each in zip(BEFORE[14:], late[14:], strict=True)]
    assert measure_lookback(BEFORE, [*loaded, *young]).days >= measure_lookback(BEFORE, loaded).days


def test_too_few_whole_days_give_the_longest_lookback() -> None:
    found = measure_lookback(BEFORE, whole([], days=6))
    assert found.days == 10
    assert "only 6 of the days from 2026-09-11 to 2026-10-04" in found.reason
    assert measure_lookback(BEFORE, whole([], days=7)).days == 1


def test_days_without_a_count_of_late_rows_are_skipped() -> None:
    """They were polled by an older version, or answered without a row."""
    silent = [each.model_copy(update={"counts": {"rows_read": 5}}) for each in whole([])]
    assert measure_lookback(BEFORE, silent).days == 10
    assert measure_lookback(BEFORE, [row(day, [], rows=0) for day in BEFORE]).days == 10
    assert measure_lookback(BEFORE, [row(day, [], age=9) for day in BEFORE]).days == 10


def test_the_log_has_the_lookback_and_its_days() -> None:
    assert measure_lookback(BEFORE, whole([3_000, 200, 7])).reason == (
        "3 days: of 14,000,000 rows of 14 days from 2026-09-11 to 2026-09-24, 98 came at least 3 days "
        "after the end of their day. The limit is 1 in 10,000"
    )


@pytest.mark.parametrize(
    "counts",
    [
        {"shape_filtered": 500_000},
        {"erased": 500_000},
        {"shape_filtered": 300_000, "erased": 200_000},
        {"rows_polled": 900_000, "shape_filtered": 100_000},
        {"rows_polled": 0, "shape_filtered": 600_000, "erased": 400_000},
    ],
)
def test_late_rows_are_a_share_of_what_the_source_sent(counts: dict[str, int]) -> None:
    """They are counted before an erase list, shapes and a transform leave rows out, and half of these were."""
    late = [1_000, 100, 100, 100, 100, 60, 60]
    loaded = [each.model_copy(update={"rows": 500_000, "counts": each.counts | counts}) for each in whole(late)]
    assert measure_lookback(BEFORE, whole(late)).days == 2
    assert measure_lookback(BEFORE, loaded).days == 2
    assert "of 14,000,000 rows of 14 days" in measure_lookback(BEFORE, loaded).reason


def test_a_day_emptied_by_shapes_counts_its_late_rows() -> None:
    empty = [
        each.model_copy(update={"rows": 0, "counts": each.counts | {"shape_filtered": MILLION}}) for each in whole([])
    ]
    assert measure_lookback(BEFORE, empty).days == 1


def test_a_row_of_an_older_version_with_more_late_rows_than_rows_is_skipped() -> None:
    """Its late rows were counted before shapes, and its ledger does not say how many these left out."""
    old = [each.model_copy(update={"rows": 15, "counts": {"late_1_days": 30}}) for each in whole([])]
    assert measure_lookback(BEFORE, old).days == 10
    assert measure_lookback(BEFORE, [*old[:7], *whole([], days=7)]).days == 1


def test_a_day_is_whole_by_the_calendar_of_its_zone() -> None:
    """Ten days with a change to summer time are an hour short of 240."""
    today = Day(date=dt.date(2026, 3, 12), zone="US/Pacific")
    before = days_to_measure([today])
    assert measure_lookback(before, [row(day, []) for day in before]).days == 1


@pytest.mark.parametrize(("days", "found"), [(1, ["2026-09-25"]), (3, ["2026-09-25", "2026-09-26", "2026-09-27"])])
def test_each_day_is_probed_once(days: int, found: list[str]) -> None:
    window = [Day(date=TODAY.date + ONE_DAY * i) for i in range(days)]
    assert [str(day) for day in probe_days(window)] == found
    assert len(probe_days([Day(date=TODAY.date + ONE_DAY * i) for i in range(30)])) == 10


# In the task


class Telling(TinySource, CountsLate):
    pass


REPORTS = """
    days = [*job["days"], *job["lookback"]]
    for day in days:
        publish(day["date"], 2)
    report(*[dict(day=day["date"], status="published", generation=2, lookback=day in job["lookback"]) for day in days])
"""


def test_a_run_loads_what_was_measured_and_the_probe(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    for each in [*whole([3_000, 200, 7]), *(row(day, [], age=0) for day in BEFORE[14:])]:
        ledger.add(each)
    spark_submit.does(REPORTS)
    task = Task(ledger, lookback_days="measured", source=Telling(conn_id="tiny_default"))
    task.context["dag"].start_date = dt.datetime(2026, 9, 1, tzinfo=dt.UTC)
    task.run()
    looked = [day["date"] for day in spark_submit.seen["job"]["lookback"]]
    assert looked == ["2026-09-25", "2026-10-02", "2026-10-03", "2026-10-04"]


def test_a_source_without_a_count_of_late_rows_is_refused(ledger: TinyLedger) -> None:
    with pytest.raises(ConfigError, match=r"source 'tiny' has none for events\. Set a number of days"):
        Task(ledger, lookback_days="measured")


def test_a_sink_that_only_adds_is_refused(ledger: TinyLedger) -> None:
    with pytest.raises(ConfigError, match="only appends"):
        Task(ledger, lookback_days="measured", source=Telling(conn_id="tiny_default"), sink=TinySink(adds=True))
