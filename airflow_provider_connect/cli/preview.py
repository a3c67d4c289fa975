"""``airflow connect preview``: the first rows of a day, without Spark, and without anything that stays."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.cli.check import yesterday
from airflow_provider_connect.cli.pipelines import Pipeline, only_one
from airflow_provider_connect.cli.reporting import command, note, show
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.window import Day, parse_days

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_MOST_CHARACTERS = 60
"""How much of a value a table shows; JSON and YAML have all of it."""


@command()
def preview_command(asked: argparse.Namespace) -> None:
    """Show the first rows of a day of one pipeline."""
    if asked.rows < 1:
        raise ConfigError("--rows: at least 1")
    pipeline = only_one(asked)
    rows = first_rows(pipeline, _day(asked.day, pipeline.source.timezone), asked.rows)
    if asked.output in ("table", "plain"):
        rows = [{name: _short(value) for name, value in row.items()} for row in rows]
    show(rows, asked.output, "the source has no row of this day")


def first_rows(pipeline: Pipeline, day: Day, most: int) -> list[dict[str, Any]]:
    """Poll a day until there are enough rows.

    The requests are not reserved as a task reserves them: the vendor counts them all the same.

    :raises ConnectError: the day cannot be polled.
    """
    source = pipeline.source
    connection = credentials.resolve(source.conn_id)
    if quota := source.quota(connection):
        note(f"{pipeline.name}: asks for {day}, and that counts among {quota.describe()}")
    rows: list[dict[str, Any]] = []
    for batch in _batches(pipeline, day):
        rows += batch.slice(0, most - len(rows)).to_pylist()
        if len(rows) >= most:
            break
    return rows


def _batches(pipeline: Pipeline, day: Day) -> Iterator[pa.RecordBatch]:
    source = pipeline.source
    with closing_quietly(source.open(credentials.resolve(source.conn_id)), note) as poller:
        if poller.is_read_by_spark:
            raise ConfigError(f"{type(source).__name__} is read by Spark itself, which a preview does without")
        poller.schema()
        for part in poller.plan([day]):
            with closing(poller.poll(part, Tally(part.days))) as polled:  # type: ignore[type-var]
                for _, batch in polled:
                    yield batch


def _day(text: str | None, zone: str) -> Day:
    if text is None:
        return yesterday(zone)
    days = parse_days(text, zone)
    if len(days) != 1:
        raise ConfigError("--day: one day alone")
    return days[0]


def _short(value: Any) -> Any:
    text = "" if value is None else str(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
