"""Whether an answer looks whole: what it is compared with, and what follows if it falls short.

The driver asks before each publish. Nothing here reads anything, except :func:`has_rows`, which asks the ledger. Four
rules, the first three for every source:

* ``on_empty``: an answer without rows for a day that has rows in the ledger, or because nothing could be had for any of
  its parents; with ``never`` any answer without rows. While no published day of the stream has a row, an empty publish
  is warned of;
* ``on_shrink``: an answer that lacks more than ``shrink_percent`` of the rows that it would replace;
* ``row_bounds``: an answer far from the mean of the days before;
* ``reconcile``: an answer far from the vendor's own count of the day.

Rows that shapes have left out count with the others: what is compared is what the source answered, whatever of it is
published. A transform's result is not an answer: the rules look at what was polled, but that ``row_bounds`` compares
what is published with what shapes left out, and ``on_empty`` speaks of a result without rows, too.

The first speaks of empty answers alone, and the second of all others, so that ``on_empty="accept"`` accepts. None of
the first three counts as lost what the erase list took out of the answer and the published rows still have: an erase
that is not done yet, or was killed, must not stop the loads of its stream.

How many rows these are is known only as a difference of two counts: of the rows that the list took out of the answer,
and out of what is published. It errs in two cases, by no more than the rows named here. Rows of the erased that the
source deletes itself while others are being erased make it too small: a day may be refused that is whole. Rows of the
erased that come late make it too large: as many lost rows pass unseen.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from airflow_provider_connect.sink import Ledger, LedgerRow, OnEmpty
from airflow_provider_connect.stage.counts import FILTERED, VendorCount
from airflow_provider_connect.stage.manifest import Polled
from airflow_provider_connect.stage.transform import ROWS_POLLED
from airflow_provider_connect.window import ONE_DAY
from airflow_provider_connect.wire import Wire

OnShrink = Literal["fail", "warn", "accept"]
OnBounds = Literal["fail", "warn"]
Reconcile = Literal["off", "warn", "fail"]

SHRINK_PERCENT = 50.0
"""Deletions and the vendor's own removal of duplicates take a few percent of a day; a cut export lacks any part of it.
Half of a day is far above the first, and a fault that takes more is one that a person should see."""

RECONCILE_PERCENT = 1.0
"""Both figures are of one day and without duplicates. What differs rightly is what came between two questions, and what
a vendor's reports leave out: far below one in a hundred. A cut answer lacks any part, mostly more than that."""


_DAYS_AT_ONCE = 31
"""Days that one read of the ledger covers."""


class RowBounds(Wire):
    """How far a day's rows may be from the mean of the days before.

    :param percent: of the mean, above and below. From 100 on, only a day with too many rows is out of bounds.
    :param over_days: how many calendar days before the day count, as far as the ledger has rows of them. It must have
        rows of at least half of these days; else there is no bound, and the report says so.
    :param on: ``fail`` (default) fails the day, ``warn`` publishes it with a warning.
    """

    percent: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    over_days: int = Field(default=7, ge=1, le=366)
    on: OnBounds = "fail"

    @property
    def least_days(self) -> int:
        """How many of the days before must have rows."""
        return (self.over_days + 1) // 2

    def days_before(self, day: dt.date) -> tuple[dt.date, dt.date]:
        """Return the first and the last of the days that a day is compared with."""
        return day - ONE_DAY * self.over_days, day - ONE_DAY


class Rules(Wire):
    """What an answer with rows must pass; the operator's options of the same names."""

    on_shrink: OnShrink = "fail"
    shrink_percent: float = Field(default=SHRINK_PERCENT, ge=0, lt=100)
    row_bounds: RowBounds | None = None
    reconcile: Reconcile = "off"
    reconcile_percent: float = Field(default=RECONCILE_PERCENT, ge=0, lt=100)


@dataclass(frozen=True)
class Finding:
    """What is wrong with an answer, in one sentence that names both figures and what to do.

    :param is_fatal: whether the day fails; else it is published, and the report carries the text.
    """

    text: str
    is_fatal: bool


def findings(
    day: dt.date,
    polled: Polled,
    *,
    on_empty: OnEmpty,
    rules: Rules,
    replaced: LedgerRow | None,
    earlier: LedgerRow | None,
    before: Sequence[LedgerRow] = (),
    result: Polled | None = None,
    has_rows: Callable[[], bool] = lambda: True,
) -> list[Finding]:
    """Return what looks wrong with an answer.

    Answers are compared with answers: where the ledger's rows were made by a transform, it knows how many were polled.
    Only ``row_bounds`` compares what is published, for of earlier days no more may be known.

    :param replaced: what a publish would replace; None if nothing.
    :param earlier: the same; for the first snapshot of a day, the one of the day before.
    :param before: what the ledger has of the days before, for ``row_bounds``.
    :param result: what a transform made of the answer; None without one.
    :param has_rows: whether any published day of the stream has a row. Called for a publish without rows only.
    """
    rows = answered(polled)
    found = [all_ignored(day, polled, on_empty)]
    if replaced is not None and not any(found):
        found.append(emptied(day, polled, replaced, on_empty))
        if result is not None and not any(found):
            found.append(made_nothing(day, polled, result, replaced, on_empty))
    if on_empty == "never" and not any(found):
        found.append(refused_empty(day, polled, result))
    if earlier is not None and not any(found) and (rows or on_empty != "accept"):
        found.append(shrunk(day, rows, earlier, rules, erased=_newly_erased(polled, earlier)))
    if rules.row_bounds is not None:
        made = _kept(polled if result is None else result)
        found.append(out_of_bounds(day, made, before, rules.row_bounds, erased=polled.counts.get("erased", 0)))
    if not any(found) and not (polled if result is None else result).rows_written and not has_rows():
        found.append(never_had_rows(day, polled, result))
    return [each for each in found if each is not None]


def answered(of: Polled | LedgerRow) -> int:
    """Return how many rows the source answered: with those that shapes left out, and before a transform."""
    if isinstance(of, LedgerRow) and ROWS_POLLED in of.counts:
        return of.counts[ROWS_POLLED] + of.counts.get(FILTERED, 0)
    return _kept(of)


def sent(of: Polled | LedgerRow) -> int:
    """Return the number of rows that the vendor sent, with the rows that an erase list left out."""
    return answered(of) + of.counts.get("erased", 0)


def _kept(of: Polled | LedgerRow) -> int:
    """Return how many rows there would be, had shapes left none out."""
    return (of.rows_written if isinstance(of, Polled) else of.rows) + of.counts.get(FILTERED, 0)


def emptiness(polled: Polled, on_empty: OnEmpty) -> OnEmpty:
    """Return what a day without a row means to its sink: one whose rows shapes have left out is meant to have none."""
    return "accept" if not polled.rows_written and answered(polled) else on_empty


def emptied(day: dt.date, polled: Polled, earlier: LedgerRow, on_empty: OnEmpty) -> Finding | None:
    """Refuse to replace rows by nothing, unless the operator accepts it.

    :param earlier: what the answer would replace.
    """
    is_lost = earlier.rows and answered(earlier) > _newly_erased(polled, earlier)
    if on_empty == "accept" or answered(polled) or not is_lost:
        return None
    return Finding(
        f"day {day}: the source answered {_emptily(polled)}, and would delete the {earlier.rows:,} published rows of "
        f"{earlier.day} (generation {earlier.generation}): check why the source sent nothing; if that is right, set "
        "the operator's on_empty='accept' and clear the task",
        is_fatal=True,
    )


def made_nothing(day: dt.date, polled: Polled, result: Polled, earlier: LedgerRow, on_empty: OnEmpty) -> Finding | None:
    """Refuse to replace rows by a transform's result that has none, unless the operator accepts it.

    :param earlier: what the result would replace.
    """
    if on_empty == "accept" or result.rows_written or not polled.rows_written or not earlier.rows:
        return None
    return Finding(
        f"day {day}: the transform made no row of the {polled.rows_written:,} that were polled, and would delete the "
        f"{earlier.rows:,} published rows of {earlier.day} (generation {earlier.generation}): check the transform, and "
        "the tables that it reads; if that is right, set the operator's on_empty='accept' and clear the task",
        is_fatal=True,
    )


def refused_empty(day: dt.date, polled: Polled, result: Polled | None) -> Finding | None:
    """Refuse an answer, or a transform's result, without rows, whether or not the day was published before."""
    if not answered(polled):
        text, subject = f"the source answered {_emptily(polled)}", "the source, and the credentials' rights"
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


def never_had_rows(day: dt.date, polled: Polled, result: Polled | None) -> Finding:
    """Warn of a publish without rows while no published day of the stream has a row."""
    if result is not None and polled.rows_written:
        text = f"the transform made no row of the {polled.rows_written:,} that were polled"
    elif answered(polled):
        text = f"the source answered with {answered(polled):,} rows, and shapes left all of them out"
    else:
        text = f"the source answered {_emptily(polled)}"
    return Finding(
        f"day {day}: {text}, and no published day of this stream has a row. Check the options that decide which rows "
        "there are, and the credentials' rights. To fail such days, set the operator's on_empty='never'",
        is_fatal=False,
    )


def has_rows(ledger: Ledger) -> bool:
    """Tell whether any published day of a stream has a row. Reads the ledger, the newest days first."""
    months = (
        (max(first, last - ONE_DAY * (back + _DAYS_AT_ONCE - 1)), last - ONE_DAY * back)
        for first, last in reversed(ledger.days().ranges)
        for back in range(0, (last - first).days + 1, _DAYS_AT_ONCE)
    )
    return any(row.rows for begin, end in months for row in ledger.between(begin, end))


def _emptily(polled: Polled) -> str:
    read = max(polled.rows_read, polled.counts.get("rejected", 0))
    return f"with {read:,} rows, none of which can be published" if read else "without a row"


def all_ignored(day: dt.date, polled: Polled, on_empty: OnEmpty) -> Finding | None:
    """Refuse a day without a row because nothing could be had for any of its parents, unless the operator accepts it.

    One parent that is gone is one thing; if all are, a right is missing more often than not.
    """
    parents = polled.counts.get("parents", 0)
    if not parents or polled.counts.get("ignored_parents", 0) < parents:
        return None
    text = (
        f"day {day}: there is not a row, as the answers for all its {parents:,} parents were such as errors says to "
        "ignore: check the credentials' rights, as some APIs answer as if nothing were there where a right is missing; "
    )
    if on_empty != "accept":
        return Finding(text + "if it is right, set the operator's on_empty='accept' and clear the task", is_fatal=True)
    return Finding(text + "it is published all the same, as on_empty='accept' says", is_fatal=False)


def shrunk(day: dt.date, rows: int, earlier: LedgerRow, rules: Rules, *, erased: int = 0) -> Finding | None:
    """Compare an answer that has rows with what is published.

    :param earlier: the day's newest publish, or the snapshot before this one.
    :param erased: how many rows the erase list took out of the answer that ``earlier`` still has.
    """
    there = answered(earlier)
    lost = there - rows - erased
    if rules.on_shrink == "accept" or lost * 100 <= rules.shrink_percent * there:
        return None
    shaped = ", with those that shapes leave out" if earlier.counts.get(FILTERED) else ""
    text = (
        f"day {day}: the source answered with {rows:,} rows"
        f"{f' besides {erased:,} that were erased since' if erased else ''}, and {there:,} "
        f"{'were polled for' if ROWS_POLLED in earlier.counts else 'are published of'} "
        f"{earlier.day} (generation {earlier.generation}{shaped}): {_percent(lost, there)} fewer, and "
        f"shrink_percent allows {rules.shrink_percent:g} %: check whether the answer was cut; "
    )
    advice = "if it is right, set the operator's on_shrink='accept' or a higher shrink_percent, and clear the task"
    if rules.on_shrink == "fail":
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "it is published all the same, as on_shrink='warn' says", is_fatal=False)


def out_of_bounds(
    day: dt.date, rows: int, before: Sequence[LedgerRow], bounds: RowBounds, *, erased: int = 0
) -> Finding | None:
    """Compare an answer with the mean of the days before.

    :param before: what the ledger has of the days before, one row a day.
    :param erased: how many rows the erase list took out of the answer. Those beyond the mean of the days before, which
        lack theirs, too, are not missing.
    """
    compared = [row for row in before if _kept(row)]
    counts = [_kept(row) for row in compared]
    if len(counts) < bounds.least_days:
        return Finding(
            f"day {day}: row_bounds says nothing about its {rows:,} rows: the ledger has rows of {len(counts)} of the "
            f"{bounds.over_days} days before, and {bounds.least_days} are needed",
            is_fatal=False,
        )
    total = sum(counts)
    # In whole numbers of rows times days: a mean that is rounded could refuse a day that is just within the bounds.
    away = rows * len(counts) - total
    if away < 0 and erased:
        newly = erased * len(counts) - sum(row.counts.get("erased", 0) for row in compared)
        away = min(away + max(newly, 0), 0)
    if abs(away) * 100 <= bounds.percent * total:
        return None
    text = (
        f"day {day}: the source answered with {rows:,} rows{f' besides {erased:,} that are erased' if erased else ''}, "
        f"{_percent(abs(away), total)} "
        f"{'more' if away > 0 else 'fewer'} than the mean {total / len(counts):,.0f} of the {len(counts)} days with "
        f"rows among the {bounds.over_days} before; row_bounds allows {bounds.percent:g} %: check whether the answer "
        "is whole; "
    )
    if bounds.on == "fail":
        advice = "if it is right, set RowBounds(on='warn') or a higher percent, and clear the task"
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "it is published all the same, as RowBounds(on='warn') says", is_fatal=False)


def disagreement(day: dt.date, rows: int, count: VendorCount, percent: float, mode: Reconcile) -> Finding | None:
    """Compare an answer with the vendor's own count.

    :param rows: of the answer, without duplicates; those that an erase leaves out are among them.
    :param percent: by how much of the count they may differ.
    """
    away = rows - count.rows
    if abs(away) * 100 <= percent * count.rows or (away > 0 and count.is_least):
        return None
    share = f"{_percent(abs(away), count.rows)} " if count.rows else ""
    if count.is_most and away < 0:
        share += "(of a count that holds what the source does not send any more, such as deleted rows) "
    text = (
        f"day {day}: the source answered with {rows:,} rows, and counts {count.rows:,} itself: {share}"
        f"{'more' if away > 0 else 'fewer'}, and reconcile_percent allows {percent:g} %: check whether the answer is "
        "whole; "
    )
    if mode == "fail":
        advice = "if it is right, set the operator's reconcile='warn' or a higher reconcile_percent, and clear the task"
        return Finding(text + advice, is_fatal=True)
    return Finding(text + "it is published all the same, as reconcile='warn' says", is_fatal=False)


def _newly_erased(polled: Polled, earlier: LedgerRow) -> int:
    """Return how many rows the erase list took out of an answer beyond those that ``earlier`` lacks already.

    The count of ``earlier`` is not added to its rows instead: once the vendor has deleted these people, too, no answer
    has their rows any more.
    """
    return max(polled.counts.get("erased", 0) - earlier.counts.get("erased", 0), 0)


def _percent(part: int, whole: int) -> str:
    """Return a share with as many digits as it takes to tell it from a limit just below."""
    return f"{part / whole * 100:,.4g} %"
