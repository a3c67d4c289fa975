"""Stream ``funnels``: steps of saved funnels, by day.

https://developer.mixpanel.com/reference/funnels-list-saved, /reference/funnels-query (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.http.asking.call import Call
from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel import client
from airflow_provider_connect.sources._mixpanel.query.answers import (
    RowValues,
    batch_reader,
    fetch_entries,
    fetch_member,
    require_count,
    same_named_columns,
    text_or_none,
    value_of_day,
)
from airflow_provider_connect.sources._mixpanel.stream_definition import OTHER_DAY_COUNT, RECORD_KEY, MixpanelStream

if TYPE_CHECKING:
    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

_LIST = Call("/api/query/funnels/list", about="saved funnels")

MAX_FUNNEL_DURATION = dt.timedelta(days=90)
"""Most time to complete a funnel. A completion counts for the user's first day."""


def _rows(api_client: MixpanelClient) -> Iterator[RowValues]:
    names: dict[int, str | None] = dict.fromkeys(api_client.options.funnels or ())
    if not names:
        for funnel in fetch_entries(api_client, _LIST, entry_name="funnels", id_field="funnel_id"):
            names[funnel["funnel_id"]] = text_or_none(funnel.get("name"))
    may_change = client.current_time() < api_client.day.end + MAX_FUNNEL_DURATION
    for funnel_id, name in names.items():
        for row in _steps(api_client, funnel_id):
            if may_change:
                api_client.tally.counts["may_change"] += 1
            yield row | {"date": api_client.day.date, "funnel_id": funnel_id, "funnel_name": name}


def _steps(api_client: MixpanelClient, funnel_id: int) -> Iterator[dict[str, Any]]:
    report_name, date = f"funnel {funnel_id}", str(api_client.day)
    params = {"funnel_id": str(funnel_id), "from_date": date, "to_date": date, "unit": "day"}
    call = Call("/api/query/funnels", params=params, about=f"{report_name} (option funnels)")
    day_value = value_of_day(api_client, fetch_member(api_client, call, "data", kind=dict), report_name)
    steps = day_value.get("steps") if isinstance(day_value, dict) else []
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise DataError(f"{report_name}: Mixpanel's answer has no list of steps for {date}. Report it to Mixpanel")
    for index, step in enumerate(steps):
        yield same_named_columns(FUNNELS, step) | {
            "step": index,
            "count": require_count(step.get("count"), report_name),
        }


FUNNELS = MixpanelStream(
    name="funnels",
    kind="day",
    api="query",
    summary="a step of a saved funnel on a day",
    columns={
        "date": RowColumn("date", "The day on which users began the funnel, in the project's zone.", required=True),
        "funnel_id": RowColumn("bigint", "The funnel's id.", required=True),
        "funnel_name": RowColumn("string", "Its name. Null if the option funnels lists it."),
        "step": RowColumn("bigint", "Position of the step in the funnel, from 0.", required=True),
        "event": RowColumn("string", "The step's event. $custom_event:<id> for a custom event."),
        "step_label": RowColumn("string", "Name of the custom event. Null, or the event, for others."),
        "custom_event_id": RowColumn("bigint", "Id of the custom event. Null for others."),
        "count": RowColumn("bigint", "Number of users that reached the step.", required=True),
        "step_conv_ratio": RowColumn("double", "Fraction of the previous step's users that reached this step."),
        "overall_conv_ratio": RowColumn("double", "Fraction of the first step's users that reached this step."),
        "avg_time": RowColumn("double", "Mean time from the previous step, as Mixpanel gives it. Null for step 0."),
        "avg_time_from_start": RowColumn("double", "Mean time from step 0, as Mixpanel gives it."),
        "record_key": RECORD_KEY,
    },
    key=("date", "funnel_id", "step"),
    options=frozenset({"funnels"}),
    min_requests=lambda options: len(options.funnels) if options.funnels else 2,  # the list, and a funnel
    cost_text="1 for each funnel, and 1 for the list without funnels",
    counts={"may_change": "rows of days that ended less than 90 days ago", **OTHER_DAY_COUNT},
    read_batches=batch_reader(_rows),
)
