"""What an answer is compared with: the rules alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.completeness import RowBounds, Rules, bounds_finding, findings, has_rows, shrink_finding
from airflow_provider_connect.sink import LedgerRow, OnEmpty
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.line_ledger import LineLedger

DAY = dt.date(2026, 10, 5)
COUNTS = st.integers(0, 10**9)
PERCENT = st.integers(0, 99)


def row(rows: int, day: dt.date = DAY, generation: int = 3) -> LedgerRow:
    return LedgerRow(day=day, generation=generation, token="t", rows=rows)


@given(rows=COUNTS, was=COUNTS, percent=PERCENT)
def test_an_answer_has_shrunk_if_less_than_the_rest_that_is_asked_for_came(rows: int, was: int, percent: int) -> None:
    found = shrink_finding(DAY, rows, row(was), Rules(shrink_percent=percent))
    assert (found is not None) == (Fraction(rows) < was * Fraction(100 - percent, 100))


@given(was=st.integers(1, 10**9), percent=PERCENT, more=COUNTS, fewer=COUNTS)
def test_more_rows_never_look_worse(was: int, percent: int, more: int, fewer: int) -> None:
    rules, (few, many) = Rules(shrink_percent=percent), sorted((more, fewer))
    if shrink_finding(DAY, few, row(was), rules) is None:
        assert shrink_finding(DAY, many, row(was), rules) is None


@given(rows=COUNTS, was=COUNTS)
def test_accept_says_nothing_and_warn_does_not_fail(rows: int, was: int) -> None:
    assert shrink_finding(DAY, rows, row(was), Rules(on_shrink="accept")) is None
    warned, failed = (shrink_finding(DAY, rows, row(was), Rules(on_shrink=on)) for on in ("warn", "fail"))
    assert (warned is None) == (failed is None)
    if warned is not None and failed is not None:
        assert (warned.is_fatal, failed.is_fatal) == (False, True)


@given(rows=COUNTS, before=st.lists(st.integers(1, 10**9), min_size=4, max_size=7), percent=st.integers(1, 300))
def test_a_day_is_out_of_bounds_if_it_is_that_far_from_the_mean(rows: int, before: list[int], percent: int) -> None:
    found = bounds_finding(DAY, rows, [row(each) for each in before], RowBounds(percent=percent))
    mean = Fraction(sum(before), len(before))
    assert (found is not None) == (abs(rows - mean) > mean * percent / 100)


@given(rows=COUNTS, before=st.lists(COUNTS, max_size=7))
def test_too_few_days_with_rows_are_no_bound_and_said(rows: int, before: list[int]) -> None:
    full = [each for each in before if each]
    found = bounds_finding(DAY, rows, [row(each) for each in before], RowBounds())
    if len(full) < 4:
        assert found is not None
        assert not found.is_fatal
        assert f"has rows of {len(full)} of the 7 days before, and 4 are needed" in found.text


@pytest.mark.parametrize(
    ("rows", "before", "is_found"),
    [
        (50, [100] * 4, False),
        (49, [100] * 4, True),
        (150, [100] * 4, False),
        (151, [100] * 4, True),
        (0, [0, 0, 0, 100], True),  # one day with rows is no bound, which is said
        (100, [100, 100, 100, 100, 0, 0, 0], False),
    ],
)
def test_the_limits_themselves_are_within_and_empty_days_count_for_nothing(
    rows: int, before: list[int], is_found: bool
) -> None:
    found = bounds_finding(DAY, rows, [row(each) for each in before], RowBounds())
    assert (found is not None) == is_found
    if found is not None:
        assert found.is_fatal == (0 not in before)


@pytest.mark.parametrize(("days", "least"), [(1, 1), (2, 1), (7, 4), (30, 15)])
def test_half_of_the_days_before_must_have_rows(days: int, least: int) -> None:
    bounds = RowBounds(over_days=days)
    assert bounds.least_days == least
    first, last = bounds.days_before(DAY)
    assert (last, (last - first).days + 1) == (dt.date(2026, 10, 4), days)


def test_both_figures_the_threshold_and_what_to_do_are_named() -> None:
    found = shrink_finding(DAY, 499, row(1_000), Rules())
    assert found is not None
    for part in ("499 rows", "1,000 are published", "generation 3", "50.1 % fewer", "50 %", "on_shrink='accept'"):
        assert part in found.text
    found = bounds_finding(DAY, 10, [row(1_000)] * 5, RowBounds(percent=30))
    assert found is not None
    for part in ("10 rows", "99 % fewer than the mean 1,000 of the 5 days", "30 %", "RowBounds(on='warn')"):
        assert part in found.text
    found = bounds_finding(DAY, 2_000, [row(1_000)] * 5, RowBounds(on="warn"))
    assert found is not None
    assert "100 % more than" in found.text
    assert "The day is published, because" in found.text


@pytest.mark.parametrize(
    ("rows", "replaced", "earlier", "on_empty", "said"),
    [
        (0, 100, 100, "fail", ["on_empty"]),
        (0, 100, 100, "accept", []),
        (0, 100, 100, "never", ["on_empty"]),
        (0, None, None, "never", ["on_empty"]),
        (0, 0, 0, "never", ["on_empty"]),
        (0, None, 100, "never", ["on_empty"]),
        (1, 100, 100, "never", ["on_shrink"]),
        (1, 100, 100, "fail", ["on_shrink"]),
        (1, 100, 100, "accept", ["on_shrink"]),
        (0, 0, 0, "fail", []),
        (0, None, None, "fail", []),
        (0, None, 100, "fail", ["on_shrink"]),
        (0, None, 100, "accept", []),
        (100, 100, 100, "fail", []),
    ],
)
def test_an_answer_without_rows_is_for_on_empty_and_any_other_for_on_shrink(
    rows: int, replaced: int | None, earlier: int | None, on_empty: OnEmpty, said: list[str]
) -> None:
    found = findings(
        DAY,
        PollResult(rows_written=rows),
        on_empty=on_empty,
        rules=Rules(),
        replaced=None if replaced is None else row(replaced),
        earlier=None if earlier is None else row(earlier),
    )
    assert [next(name for name in ("on_empty", "on_shrink") if f"{name}='" in each.text) for each in found] == said


class Asked(LineLedger):
    """Counts the questions."""

    questions = 0

    def between(self, first: dt.date, last: dt.date) -> list[LedgerRow]:
        self.questions += 1
        return super().between(first, last)


@pytest.mark.parametrize(
    ("days", "with_rows", "questions"),
    [
        ([], [], 0),
        ([0], [], 1),
        ([0], [0], 1),
        (range(400), [399], 1),
        (range(400), [0], 13),
        (range(62), [], 2),
        ([0, 1, 5, 6], [1], 2),
        ([0, 1, 5, 6], [], 2),
    ],
)
def test_the_ledger_is_asked_for_the_newest_days_first(
    tmp_path: Path, days: Sequence[int], with_rows: Sequence[int], questions: int
) -> None:
    ledger = Asked(tmp_path / "ledger")
    for number in days:
        ledger.add(row(int(number in with_rows), DAY + ONE_DAY * number))
    assert has_rows(ledger) == bool(with_rows)
    assert ledger.questions == questions


def test_a_publish_with_rows_asks_nothing_of_the_ledger() -> None:
    def asked() -> bool:
        raise AssertionError("a question to a database for each day that is loaded")

    answer = PollResult(rows_written=1)
    assert findings(DAY, answer, on_empty="never", rules=Rules(), replaced=None, earlier=None, has_rows=asked) == []


def erasing(rows: int, erased: int, was: int, already: int = 0, on_empty: OnEmpty = "fail") -> bool:
    """Tell whether an answer passes of which an erase list took rows out."""
    answer = PollResult(files=(), rows_read=rows + erased, rows_written=rows, counts={"erased": erased})
    earlier = row(was).model_copy(update={"counts": {"erased": already}})
    return not findings(DAY, answer, on_empty=on_empty, rules=Rules(), replaced=earlier, earlier=earlier)


@pytest.mark.parametrize(
    ("rows", "erased", "was", "already", "passes"),
    [
        (10, 90, 100, 0, True),  # the erase has yet to come to the day
        (10, 30, 100, 0, False),  # it has, and half of the rest is missing
        (10, 90, 40, 90, False),  # it has come to the day already, and explains nothing any more
        (10, 0, 10, 90, True),  # the vendor has deleted them, too
        (0, 100, 100, 0, True),  # all of the day's rows are theirs
        (0, 99, 100, 0, False),
        (0, 10, 100, 90, False),
        (0, 0, 100, 0, False),
    ],
)
def test_what_the_erase_list_took_out_is_not_lost(
    rows: int, erased: int, was: int, already: int, *, passes: bool
) -> None:
    assert erasing(rows, erased, was, already) is passes


@pytest.mark.parametrize(
    ("rows", "erased", "was", "already", "passes"),
    [
        (40, 60, 100, 0, True),  # the erase has yet to come to the days before
        (40, 60, 40, 60, True),  # it has
        (40, 0, 40, 60, True),  # the vendor has deleted them, too
        (10, 60, 40, 60, False),  # three in four of the others are missing
        (10, 30, 100, 0, False),
        (10, 90, 40, 90, False),
        (200, 60, 100, 0, False),  # too many, whoever is erased
    ],
)
def test_row_bounds_do_not_miss_the_erased(rows: int, erased: int, was: int, already: int, *, passes: bool) -> None:
    before = [row(was).model_copy(update={"counts": {"erased": already}}) for _ in range(7)]
    answer = PollResult(rows_read=rows + erased, rows_written=rows, counts={"erased": erased})
    rules = Rules(row_bounds=RowBounds(percent=50))
    found = findings(DAY, answer, on_empty="fail", rules=rules, replaced=None, earlier=None, earlier_rows=before)
    assert (not found) is passes
    assert all("more are erased" in each.text for each in found)


def test_what_the_erase_list_took_out_is_known_to_within_what_the_module_says() -> None:
    """As it says: a whole day is refused, and a loss passes, by no more than the rows of the erased that moved."""
    vendor_deletes_60_while_60_others_are_erased = erasing(40, 60, was=100, already=60)
    assert not vendor_deletes_60_while_60_others_are_erased
    sixty_of_theirs_come_late_and_sixty_are_lost = erasing(40, 60, was=100, already=0)
    assert sixty_of_theirs_come_late_and_sixty_are_lost


def test_the_message_names_what_was_erased() -> None:
    found = shrink_finding(DAY, 10, row(100), Rules(), erased=30)
    assert found is not None
    assert "10 rows (30 more were erased since), and 100 are published" in found.text
    assert "60 % fewer" in found.text


@pytest.mark.parametrize("on_empty", ["fail", "accept", "never"])
@pytest.mark.parametrize("earlier", [None, row(9)])
def test_a_day_all_of_whose_parents_were_ignored_is_told_by_that_and_once(
    on_empty: OnEmpty, earlier: LedgerRow | None
) -> None:
    """At 3 a.m. a token has lost its rights, and an API says 404 to all: that is no day without events."""

    def told(**counts: int) -> list[tuple[str, bool]]:
        polled = PollResult(files=(), counts=counts)
        found = findings(DAY, polled, on_empty=on_empty, rules=Rules(), replaced=earlier, earlier=earlier)
        return [(each.text, each.is_fatal) for each in found]

    ((text, is_fatal),) = told(parents=7, ignored_parents=7)
    assert "all 7 parents" in text
    assert is_fatal is (on_empty != "accept")
    assert not any("parents" in text for text, _ in told(parents=7, ignored_parents=6) + told())
    ((text, is_fatal),) = told(filtered_parents=5, parents_without_value=2)
    assert "skip all 7 parents" in text
    assert is_fatal is (on_empty != "accept")
    assert not any("parents" in text for text, _ in told(parents=1, filtered_parents=6))


@pytest.mark.parametrize(
    ("records", "absent", "is_warned"), [(100, 100, True), (99, 99, False), (100, 60, False), (200, 200, True)]
)
def test_a_column_that_is_null_in_every_row_is_warned_of(records: int, absent: int, is_warned: bool) -> None:
    polled = PollResult(files=(), rows_read=records, rows_written=records, counts={"column_absent.at": absent})
    found = findings(DAY, polled, on_empty="fail", rules=Rules(), replaced=None, earlier=None)
    texts = [each.text for each in found if "column 'at'" in each.text and not each.is_fatal]
    assert len(texts) == is_warned


@pytest.mark.parametrize(("records", "absent", "is_refused"), [(3, 3, True), (3, 2, False), (0, 0, False)])
def test_a_column_whose_field_is_required_fails_the_day(*, records: int, absent: int, is_refused: bool) -> None:
    """Partitions in which no record has the field count their records. All of the day's records must be among them."""
    refused = {"column_refused.at": absent} if absent else {}
    polled = PollResult(files=(), rows_read=records, rows_written=records, counts=refused)
    found = findings(DAY, polled, on_empty="fail", rules=Rules(), replaced=None, earlier=None)
    assert any("column 'at', and records.absent='fail'" in each.text and each.is_fatal for each in found) == is_refused
