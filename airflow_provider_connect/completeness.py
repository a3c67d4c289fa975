"""Checks whether an answer (a day's polled rows) is complete.

The rules compare the source's answers, before shapes and transform.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import Field

from airflow_provider_connect.sink import Ledger, LedgerRow, OnEmpty
from airflow_provider_connect.stage.counts import ABSENT_COLUMN, FILTERED, REFUSED_COLUMN, VendorCount
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.stage.transform import ROWS_POLLED
from airflow_provider_connect.window import ONE_DAY
from airflow_provider_connect.wire import Wire

OnShrink = Literal["fail", "warn", "accept"]
OnBounds = Literal["fail", "warn"]
Reconcile = Literal["off", "warn", "fail"]

SHRINK_PERCENT = 50.0
"""Default of ``shrink_percent``."""

RECONCILE_PERCENT = 1.0
"""Default of ``reconcile_percent``."""


_DAYS_AT_ONCE = 31
_MANY_RECORDS = 100


class RowBounds(Wire):
    """Limits of a day's rows around the mean of the days before.

    :param percent: allowed distance from the mean.
    :param over_days: calendar days before the day. Without rows for half of them, there is no bound.
    :param on: ``warn`` publishes the day with a warning.
    """

    percent: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    over_days: int = Field(default=7, ge=1, le=366)
    on: OnBounds = "fail"

    @property
    def least_days(self) -> int:
        """Number of earlier days that must have rows."""
        return (self.over_days + 1) // 2

    def days_before(self, day: dt.date) -> tuple[dt.date, dt.date]:
        """Return the first and the last day to compare with."""
        return day - ONE_DAY * self.over_days, day - ONE_DAY


class Rules(Wire):
    """Rules for an answer with rows, named like the operator's options."""

    on_shrink: OnShrink = "fail"
    shrink_percent: float = Field(default=SHRINK_PERCENT, ge=0, lt=100)
    row_bounds: RowBounds | None = None
    reconcile: Reconcile = "off"
    reconcile_percent: float = Field(default=RECONCILE_PERCENT, ge=0, lt=100)


@dataclass(frozen=True)
class Finding:
    """A problem with an answer, with both figures and the remedy.

    :param is_fatal: True if the day fails.
    """

    text: str
    is_fatal: bool


def findings(
    day: dt.date,
    polled: PollResult,
    *,
    on_empty: OnEmpty,
    rules: Rules,
    replaced: LedgerRow | None,
    earlier: LedgerRow | None,
    earlier_rows: Sequence[LedgerRow] = (),
    result: PollResult | None = None,
    has_rows: Callable[[], bool] = lambda: True,
) -> list[Finding]:
    """Return the problems of an answer.

    :param earlier: the publish to compare rows with: ``replaced``, or the snapshot before.
    :param has_rows: True if any published day has a row.
    """
    rows = rows_answered(polled)
    candidates = [ignored_finding(day, polled, on_empty)]
    if replaced is not None and not any(candidates):
        candidates.append(emptied(day, polled, replaced, on_empty))
        if result is not None and not any(candidates):
            candidates.append(made_nothing(day, polled, result, replaced, on_empty))
    if on_empty == "never" and not any(candidates):
        candidates.append(refused_empty(day, polled, result))
    if earlier is not None and not any(candidates) and (rows or on_empty != "accept"):
        candidates.append(shrink_finding(day, rows, earlier, rules, erased=_newly_erased(polled, earlier)))
    if rules.row_bounds is not None:
        published_rows = rows_before_filter(polled if result is None else result)
        candidates.append(
            bounds_finding(day, published_rows, earlier_rows, rules.row_bounds, erased=polled.counts.get("erased", 0))
        )
    if not any(candidates) and not (polled if result is None else result).rows_written and not has_rows():
        candidates.append(never_had_rows(day, polled, result))
    candidates += [refused_columns(day, polled), absent_columns(day, polled)]
    return [finding for finding in candidates if finding is not None]


def absent_columns(day: dt.date, polled: PollResult) -> Finding | None:
    """Return a warning for columns whose field no record has, unless the day has few records."""
    names = _columns_of_no_record(polled, ABSENT_COLUMN)
    if not names or polled.rows_read < _MANY_RECORDS:
        return None
    return Finding(
        f"day {day}: none of {polled.rows_read:,} records has the field of column {names}, which is null in every row. "
        "Correct the place of the field in records.columns, or remove the column",
        is_fatal=False,
    )


def refused_columns(day: dt.date, polled: PollResult) -> Finding | None:
    """Return a problem for columns whose field no record has, if the source's options require the field."""
    names = _columns_of_no_record(polled, REFUSED_COLUMN)
    if not names:
        return None
    return Finding(
        f"day {day}: none of {polled.rows_read:,} records has the field of column {names}, and records.absent='fail' "
        "refuses the day. Correct the place of the field in records.columns. If such days occur, set "
        "records.absent='warn'",
        is_fatal=True,
    )


def _columns_of_no_record(polled: PollResult, prefix: str) -> str:
    return ", ".join(
        repr(key.removeprefix(prefix))
        for key, count in sorted(polled.counts.items())
        if key.startswith(prefix) and count >= polled.rows_read
    )


def rows_answered(day: PollResult | LedgerRow) -> int:
    """Return the number of rows in the source's answer, before shapes and transform."""
    if isinstance(day, LedgerRow) and ROWS_POLLED in day.counts:
        return day.counts[ROWS_POLLED] + day.counts.get(FILTERED, 0)
    return rows_before_filter(day)


def rows_from_vendor(day: PollResult | LedgerRow) -> int:
    """Return the number of rows that the vendor sent, including erased rows."""
    return rows_answered(day) + day.counts.get("erased", 0)


def rows_before_filter(day: PollResult | LedgerRow) -> int:
    """Return the number of staged or published rows, plus rows that shapes removed."""
    return (day.rows_written if isinstance(day, PollResult) else day.rows) + day.counts.get(FILTERED, 0)


def effective_on_empty(polled: PollResult, on_empty: OnEmpty) -> OnEmpty:
    """Return ``on_empty`` for the sink: ``accept`` if shapes removed all rows."""
    return "accept" if not polled.rows_written and rows_answered(polled) else on_empty


def emptied(day: dt.date, polled: PollResult, earlier: LedgerRow, on_empty: OnEmpty) -> Finding | None:
    """Return a fatal problem if an empty answer would replace published rows, unless accepted."""
    is_lost = earlier.rows and rows_answered(earlier) > _newly_erased(polled, earlier)
    if on_empty == "accept" or rows_answered(polled) or not is_lost:
        return None
    return Finding(
        f"day {day}: the source answered {_emptily(polled)}, and would delete the {earlier.rows:,} published rows of "
        f"{earlier.day} (generation {earlier.generation}). Check why the source sent nothing. If the day is really "
        "empty, set the operator's on_empty='accept' and clear the task",
        is_fatal=True,
    )


def made_nothing(
    day: dt.date, polled: PollResult, result: PollResult, earlier: LedgerRow, on_empty: OnEmpty
) -> Finding | None:
    """Return a fatal problem if a transform's empty result would replace rows, unless accepted."""
    if on_empty == "accept" or result.rows_written or not polled.rows_written or not earlier.rows:
        return None
    return Finding(
        f"day {day}: the transform made no row of the {polled.rows_written:,} that were polled, and would delete the "
        f"{earlier.rows:,} published rows of {earlier.day} (generation {earlier.generation}). Check the transform and "
        "the tables that it reads. If the result is right, set the operator's on_empty='accept' and clear the task",
        is_fatal=True,
    )


def refused_empty(day: dt.date, polled: PollResult, result: PollResult | None) -> Finding | None:
    """Return a fatal problem if answer or transform's result is empty, for ``on_empty="never"``."""
    if not rows_answered(polled):
        text, subject = f"the source answered {_emptily(polled)}", "the source and the credentials' permissions"
    elif result is not None and polled.rows_written and not result.rows_written:
        text = f"the transform made no row of the {polled.rows_written:,} that were polled"
        subject = "the transform, and the tables that it reads"
    else:
        return None
    return Finding(
        f"day {day}: {text}, and on_empty='never' refuses a day without rows. Check {subject}. If the day is really "
        "empty, set the operator's on_empty='fail' and clear the task",
        is_fatal=True,
    )


def never_had_rows(day: dt.date, polled: PollResult, result: PollResult | None) -> Finding:
    """Return a warning for an empty publish of a stream without published rows."""
    if result is not None and polled.rows_written:
        text = f"the transform made no row of the {polled.rows_written:,} that were polled"
    elif rows_answered(polled):
        text = f"the source answered with {rows_answered(polled):,} rows, and shapes left all of them out"
    else:
        text = f"the source answered {_emptily(polled)}"
    return Finding(
        f"day {day}: {text}, and no published day of this stream has a row. Check the options that decide which rows "
        "there are, and the credentials' permissions. To fail such days, set the operator's on_empty='never'",
        is_fatal=False,
    )


def has_rows(ledger: Ledger) -> bool:
    """Return True if any published day of a stream has a row."""
    months = (
        (max(first, last - ONE_DAY * (back + _DAYS_AT_ONCE - 1)), last - ONE_DAY * back)
        for first, last in reversed(ledger.days().ranges)
        for back in range(0, (last - first).days + 1, _DAYS_AT_ONCE)
    )
    return any(row.rows for begin, end in months for row in ledger.between(begin, end))


def _emptily(polled: PollResult) -> str:
    read = max(polled.rows_read, polled.counts.get("rejected", 0))
    return f"with {read:,} rows, none of which can be published" if read else "without a row"


class _ParentLevel(NamedTuple):
    """Numbers of parents that were requested, whose answers were ignored, and that were not requested."""

    parents: int
    ignored: int
    skipped: int

    @property
    def is_skipped(self) -> bool:
        return self.parents + self.skipped > 0 and self.ignored >= self.parents


def _levels(counts: Mapping[str, int]) -> Iterator[_ParentLevel]:
    """Yield the parents, their parents, and so on."""
    prefix = ""
    names = ("parents", "ignored_parents", "filtered_parents", "parents_without_value")
    while any(name in counts for name in (f"{prefix}{name}" for name in names)) or not prefix:
        parents, ignored, filtered, without_value = (counts.get(f"{prefix}{name}", 0) for name in names)
        yield _ParentLevel(parents, ignored, filtered + without_value)
        prefix += "parent_"


def ignored_finding(day: dt.date, polled: PollResult, on_empty: OnEmpty) -> Finding | None:
    """Return a problem if the requests for all parents of a day had ignored errors, or none was sent."""
    level = next((level for level in _levels(polled.counts) if level.is_skipped), None)
    if level is None:
        return None
    parents, skipped = level.parents, level.skipped
    text = (
        f"day {day}: there are no rows, because the answers for all {parents:,} parents were errors that the option "
        "errors ignores. Check the credentials' permissions: some APIs answer a missing permission as if the record "
        "did not exist. "
        if parents
        else f"day {day}: there are no rows, because parent_where and parent_without_value skip all {skipped:,} "
        "parents. Check the values of parent_where and the parent's columns. "
    )
    if on_empty != "accept":
        return Finding(
            text + "If the day is really empty, set the operator's on_empty='accept' and clear the task", is_fatal=True
        )
    return Finding(text + "The day is published, because on_empty='accept'", is_fatal=False)


def shrink_finding(day: dt.date, rows: int, earlier: LedgerRow, rules: Rules, *, erased: int = 0) -> Finding | None:
    """Return a problem if an answer has too few rows, compared with ``earlier``.

    :param earlier: the day's newest publish, or the snapshot before.
    :param erased: rows that the erase list removed.
    """
    earlier_count = rows_answered(earlier)
    lost = earlier_count - rows - erased
    if rules.on_shrink == "accept" or lost * 100 <= rules.shrink_percent * earlier_count:
        return None
    shaped = ", with those that shapes leave out" if earlier.counts.get(FILTERED) else ""
    text = (
        f"day {day}: the source answered with {rows:,} rows"
        f"{f' ({erased:,} more were erased since)' if erased else ''}, and {earlier_count:,} "
        f"{'were polled for' if ROWS_POLLED in earlier.counts else 'are published of'} "
        f"{earlier.day} (generation {earlier.generation}{shaped}): {_percent(lost, earlier_count)} fewer, and "
        f"shrink_percent allows {rules.shrink_percent:g} %. Check whether the answer was cut. "
    )
    advice = "If it is complete, set the operator's on_shrink='accept' or a higher shrink_percent, and clear the task"
    if rules.on_shrink == "fail":
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "The day is published, because on_shrink='warn'", is_fatal=False)


def bounds_finding(
    day: dt.date, rows: int, earlier_rows: Sequence[LedgerRow], bounds: RowBounds, *, erased: int = 0
) -> Finding | None:
    """Return a problem if a day's rows lie too far from the mean of the days before.

    :param erased: rows that the erase list removed.
    """
    compared_rows = [row for row in earlier_rows if rows_before_filter(row)]
    counts = [rows_before_filter(row) for row in compared_rows]
    if len(counts) < bounds.least_days:
        return Finding(
            f"day {day}: row_bounds was not applied to its {rows:,} rows: the ledger has rows of {len(counts)} of the "
            f"{bounds.over_days} days before, and {bounds.least_days} are needed",
            is_fatal=False,
        )
    total = sum(counts)
    # In whole numbers of rows times days: a mean that is rounded could refuse a day that is just within the bounds.
    away = rows * len(counts) - total
    if away < 0 and erased:
        newly = erased * len(counts) - sum(row.counts.get("erased", 0) for row in compared_rows)
        away = min(away + max(newly, 0), 0)
    if abs(away) * 100 <= bounds.percent * total:
        return None
    text = (
        f"day {day}: the source answered with {rows:,} rows{f' ({erased:,} more are erased)' if erased else ''}, "
        f"{_percent(abs(away), total)} "
        f"{'more' if away > 0 else 'fewer'} than the mean {total / len(counts):,.0f} of the {len(counts)} days with "
        f"rows among the {bounds.over_days} before. row_bounds allows {bounds.percent:g} %. Check whether the answer "
        "is complete. "
    )
    if bounds.on == "fail":
        advice = "If it is, set RowBounds(on='warn') or a higher percent, and clear the task"
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "The day is published, because RowBounds(on='warn')", is_fatal=False)


def count_finding(day: dt.date, rows: int, count: VendorCount, percent: float, mode: Reconcile) -> Finding | None:
    """Return a problem if an answer's rows differ too much from the vendor's own count.

    :param rows: without duplicates, with erased rows.
    """
    away = rows - count.rows
    if abs(away) * 100 <= percent * count.rows or (away > 0 and count.is_least):
        return None
    share = f"{_percent(abs(away), count.rows)} " if count.rows else ""
    if count.is_most and away < 0:
        share += "(of a count that includes rows the source no longer sends, such as deleted ones) "
    text = (
        f"day {day}: the source answered with {rows:,} rows, and counts {count.rows:,} itself: {share}"
        f"{'more' if away > 0 else 'fewer'}, and reconcile_percent allows {percent:g} %. Check whether the answer is "
        "complete. "
    )
    if mode == "fail":
        advice = "If it is, set the operator's reconcile='warn' or a higher reconcile_percent, and clear the task"
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "The day is published, because reconcile='warn'", is_fatal=False)


def _newly_erased(polled: PollResult, earlier: LedgerRow) -> int:
    return max(polled.counts.get("erased", 0) - earlier.counts.get("erased", 0), 0)


def _percent(part: int, total: int) -> str:
    return f"{part / total * 100:,.4g} %"
