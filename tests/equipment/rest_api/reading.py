"""Declares sources for the tests' API, and polls them as driver and executor do."""

from __future__ import annotations

from typing import Any

from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources.rest import Records, Request, RestSource
from airflow_provider_connect.testing.polls import Poll, poll
from airflow_provider_connect.window import Day
from tests.equipment.rest_api.items import DATE
from tests.equipment.rest_api.server import RestApi

DAY = Day(date=DATE)
COLUMNS = {"id": "bigint", "at": "timestamp", "name": "string"}
BOUNDS = {"since": "{day.start}", "until": "{day.end}"}


def records(at: str = "", **options: Any) -> Records:
    return Records(**({"at": at, "key": ("id",), "columns": COLUMNS} | options))


def declared(path: str, paging: Any, **options: Any) -> RestSource:
    """Return a source of items; what is not given is as most APIs want it."""
    request = options.pop("request", None) or Request(path=path, params=BOUNDS | options.pop("params", {}))
    wanted = {"conn_id": "api", "stream": "items", "records": records(options.pop("at", ""))} | options
    return RestSource(request=request, paging=paging, **wanted)


def read(api: RestApi, source: RestSource, day: Day = DAY) -> Poll:
    return poll(source, api.connection, day)


def ids(polled: Poll) -> list[int]:
    """Return the ids of all rows, in the order in which they came."""
    return [key for _, _, batch in polled.batches for key in batch.column("id").to_pylist()]


def counts(polled: Poll) -> dict[str, int]:
    """Return the counts of all partitions together."""
    total: dict[str, int] = {}
    for tally in polled.tallies:
        for name, count in tally.counts.items():
            total[name] = total.get(name, 0) + count
    return total


def tally_of(polled: Poll) -> Tally:
    (tally,) = polled.tallies
    return tally
