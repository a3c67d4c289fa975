"""Stream ``retention``: users who began on a day, and came back in each later interval.

https://developer.mixpanel.com/reference/retention-query (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.answers import (
    RowValues,
    batch_reader,
    fetch_member,
    require_count,
    value_of_day,
)
from airflow_provider_connect.sources._mixpanel.stream_definition import (
    OTHER_DAY_COUNT,
    RECORD_KEY,
    MixpanelStream,
    variant_by,
)
from airflow_provider_connect.window import ONE_DAY, Day, start_of

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

_REPORT_NAME = "the retention report"


class ReturnInterval(NamedTuple):
    """Time range (UTC) in which a day's users come back for the n-th time.

    :param start: of the first user's range.
    :param end: of the last user's range.
    """

    start: dt.datetime
    end: dt.datetime


def interval_of_day(day: Day, number: int, days: int) -> ReturnInterval:
    """Return the time range of interval ``number`` for all users of a day.

    A user's interval begins ``number`` times ``days`` days after the first event.
    """
    first = day.date + number * days * ONE_DAY
    return ReturnInterval(start_of(first, day.zone), start_of(first + (days + 1) * ONE_DAY, day.zone))


def _rows(api_client: MixpanelClient) -> Iterator[RowValues]:
    options, date = api_client.options, str(api_client.day)
    report = value_of_day(api_client, fetch_member(api_client, _request(options, date), kind=dict), _REPORT_NAME)
    if report is None:
        return
    counts = report.get("counts") if isinstance(report, dict) else None
    if not isinstance(counts, list):
        raise DataError(f"{_REPORT_NAME}: Mixpanel's answer has no counts for {date}. Report it to Mixpanel")
    first, current_time = require_count(report.get("first"), _REPORT_NAME), client.current_time()
    for number, count in enumerate(counts):
        span = interval_of_day(api_client.day, number, options.interval_days)
        if span.start >= current_time:
            return  # the interval is in the future, and a 0 would be read as a final count
        yield {
            "date": api_client.day.date,
            "born_event": options.born_event,
            "event": options.event[0] if options.event else None,
            "interval_number": number,
            "first": first,
            "count": require_count(count, _REPORT_NAME),
            "is_over": span.end <= current_time,
        }


def _request(options: MixpanelOptions, date: str) -> Call:
    params = {
        "from_date": date,
        "to_date": date,
        "retention_type": options.retention_type,
        "interval_count": str(options.interval_count),
    }
    # The API answers 500 to a request with both: https://github.com/PipedreamHQ/pipedream/pull/21600 (2026-08).
    params |= {"unit": "day"} if options.interval_days == 1 else {"interval": str(options.interval_days)}
    optional_params = {
        "born_event": options.born_event,
        "event": options.event[0] if options.event else None,
        "born_where": options.born_where,
        "where": options.where,
    }
    params |= {name: value for name, value in optional_params.items() if value is not None}
    return Call("/api/query/retention", params=params, about="such events (options born_event and event)")


def _problems(options: MixpanelOptions) -> list[str]:
    problems = []
    is_birth = options.retention_type == "birth"
    if is_birth and options.born_event is None:
        problems.append("born_event: retention_type 'birth' requires it. Set the event with which a user begins")
    for name in () if is_birth else ("born_event", "born_where"):
        if getattr(options, name) is not None:
            problems.append(f"{name}: retention_type 'compounded' does not use it. Remove it, or use 'birth'")
    if options.event is not None and len(options.event) > 1:
        problems.append("event: stream 'retention' takes one event of coming back. Use a task for each event")
    return problems


RETENTION = MixpanelStream(
    name="retention",
    kind="day",
    api="query",
    summary="how many of a day's users came back in an interval",
    columns={
        "date": RowColumn("date", "The day on which the users began, in the project's zone.", required=True),
        "born_event": RowColumn("string", "The event with which they began. Null if compounded.", few_values=True),
        "event": RowColumn("string", "The event of coming back. Null for any event.", few_values=True),
        "interval_number": RowColumn(
            "bigint", "Number of the interval. Interval 0 contains the beginning.", required=True
        ),
        "first": RowColumn("bigint", "Number of users that began on the day.", required=True),
        "count": RowColumn("bigint", "Number of them that came back in the interval.", required=True),
        "is_over": RowColumn(
            "boolean", "True if the interval had ended for all of them at the time of the request.", required=True
        ),
        "record_key": RECORD_KEY,
    },
    key=("date", "interval_number"),
    options=frozenset(
        {"born_event", "born_where", "event", "where", "retention_type", "interval_days", "interval_count"}
    ),
    variant=variant_by("born_event", "born_where", "event", "where", "retention_type", "interval_days"),
    problems=_problems,
    counts=OTHER_DAY_COUNT,
    read_batches=batch_reader(_rows),
)
