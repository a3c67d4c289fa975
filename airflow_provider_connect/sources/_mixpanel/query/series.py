"""Flattens the series of a saved report: names nested as deep as the report likes become rows. Pure functions.

A report of Insights has its dates innermost: ``{"Sign up": {"DE": {"2026-03-01T00:00:00-08:00": 12}}}``. One of
retention has them in the middle, with lists below, and one of funnels has none.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from airflow_provider_connect.sources._mixpanel.query.fields import instant

_WITH_OFFSET = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,}(?:Z|[+-][0-9]{2}:[0-9]{2})")

Name = str | int | None
"""A name on the way to a value: text, or a place in a list; None where the time stood between others."""


class Point(NamedTuple):
    """One value of a series.

    :param path: the names above the value, the time left out.
    :param date: the day of the time, in the offset that it is written in.
    :param time: the time, UTC; None if the series has none.
    """

    path: tuple[Name, ...]
    date: dt.date | None
    time: dt.datetime | None
    value: Any


def points(series: Any) -> Iterator[Point]:
    """Yield every value of a series, in its order. No two have the same path and time text."""
    for names, value in leaves(series):
        place = max((at for at, name in enumerate(names) if _time(name) is not None), default=None)
        if place is None:
            yield Point(names, None, None, value)
            continue
        written = str(names[place])
        below = names[place + 1 :]
        path = (*names[:place], None, *below) if below else names[:place]
        yield Point(path, dt.date.fromisoformat(written[:10]), _time(written), value)


def leaves(tree: Any) -> Iterator[tuple[tuple[Name, ...], Any]]:
    """Yield each value of a tree of objects and lists with the names above it; empty ones have none."""
    waiting: list[tuple[tuple[Name, ...], Any]] = [((), tree)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            waiting += [((*path, name), child) for name, child in reversed(node.items())]
        elif isinstance(node, list):
            waiting += [((*path, place), node[place]) for place in reversed(range(len(node)))]
        else:
            yield path, node


def _time(name: Name) -> dt.datetime | None:
    return instant(name) if isinstance(name, str) and _WITH_OFFSET.fullmatch(name) else None
