"""The first rows of a day, polled as a run polls them, and kept nowhere."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from typing import Any

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext, Source
from airflow_provider_connect.window import Day


def first_rows(source: Source, connection: Connection, date: dt.date, rows: int) -> list[dict[str, Any]]:
    """Return the first rows of a day: no page is asked for after the one that has enough.

    :raises ConnectError: as a poll does; :class:`.ConfigError` if the connection does not fit, too.
    """
    if rows < 1:
        raise ConfigError("rows: ask for at least one")
    if problems := source.check(connection):
        raise ConfigError("\n".join(problems))
    day = Day(date=date, zone=source.timezone)
    found: list[dict[str, Any]] = []
    with source.open(connection, PollContext(looks_ahead=False)) as poller:
        for part in poller.plan([day]):
            with closing(poller.poll(part, Tally(part.days))) as batches:  # type: ignore[type-var]  # a generator
                for _, batch in batches:
                    found += batch.slice(0, rows - len(found)).to_pylist()
                    if len(found) >= rows:
                        return found
    return found
