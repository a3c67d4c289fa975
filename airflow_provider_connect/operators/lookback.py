"""Chooses the days before its window that a run loads again, for late rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.operators.arguments import LookbackDays, require_reloadable
from airflow_provider_connect.operators.lookback_length import days_to_measure, measure_lookback, probe_days
from airflow_provider_connect.operators.run_days import first_whole_day, format_days
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.stage.counts import MAX_LATE_DAYS
from airflow_provider_connect.window import ONE_DAY, Day, days_between, group_days

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_connect.operators.run import RunSpec


_BACKFILL = "backfill"


def find_lookback_days(
    spec: RunSpec, lookback_days: LookbackDays, ready_after: dt.timedelta | None, context: Context
) -> tuple[Day, ...]:
    """Return the days before the window that the run loads again, oldest first. Empty in a backfill's run.

    :raises ConnectError: no access to the ledger.
    """
    if not lookback_days:
        return ()
    require_reloadable(spec.source, spec.sink, lookback_days)
    if context["dag_run"].run_type == _BACKFILL:
        return ()
    source, sink, log = spec.source, spec.sink, spec.log
    origin = spec.origin or first_whole_day(context["dag"].start_date, source.timezone)
    candidates = days_before_window(spec.days, MAX_LATE_DAYS if lookback_days == "measured" else lookback_days, origin)
    if not candidates:
        return ()
    ledger_days = days_to_measure(spec.days) if lookback_days == "measured" else candidates
    key = StreamKey(connector=source.name, stream=source.stream_key)
    with closing_quietly(sink.open(key, spec.connections), lambda text: log.warning("%s", text)) as publisher:
        rows = publisher.ledger.between(ledger_days[0].date, ledger_days[-1].date)
    if lookback_days == "measured":
        length = measure_lookback(ledger_days, rows)
        log.info("lookback_days='measured': looking back %s", length.reason)
        days_in_reach, probed_days = days_before_window(spec.days, length.days, origin), probe_days(spec.days)
        candidates = [day for day in candidates if day in days_in_reach or day in probed_days]
    stale_days = days_not_polled_since(candidates, rows, spec.days[-1].end + (ready_after or dt.timedelta(0)))
    log.info(
        "Lookback over %s: loading %s again",
        " and ".join(map(format_days, group_days(candidates, len(candidates)))),
        ", ".join(map(str, stale_days)) or "no day, since each published one was polled later",
    )
    return stale_days


def days_before_window(days: Sequence[Day], lookback_days: int, origin: dt.date | None) -> list[Day]:
    """Return the ``lookback_days`` calendar days before a window, from the origin on."""
    first, last = days[0].date - ONE_DAY * lookback_days, days[0].date - ONE_DAY
    if origin is not None:
        first = max(first, origin)
    return [day for day in days_between(first, last, days[0].zone) if day.hours > 0]


def days_not_polled_since(days: Iterable[Day], rows: Iterable[LedgerRow], moment: dt.datetime) -> tuple[Day, ...]:
    """Return the days that were last polled before ``moment``, by their ledger rows.

    Without a poll time, the publish time counts. Days with neither are left out.
    """
    polled_at = {row.day: row.polled_at or row.published_at for row in rows}
    return tuple(day for day in days if (time := polled_at.get(day.date)) is not None and time < moment)
