"""Cache of each viewer's answers from Airflow, by token."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from airflow_provider_connect.page.facts.connectors import ConnectorPair
from airflow_provider_connect.page.facts.reports import RunDayReport

FRESH_SECONDS = 60.0
_IDLE_SECONDS = 900.0
_MAX_VIEWERS = 100
MAX_EVENTS = 100_000
"""Most events cached for all viewers together, about fifty megabytes."""


class TaskName(NamedTuple):
    """Name of a task."""

    dag_id: str
    task_id: str


class TaskInfo(NamedTuple):
    """A ConnectOperator task.

    :param class_name: as in Airflow's listings.
    """

    name: TaskName
    class_name: str
    end_date: dt.datetime | None = None


@dataclass
class EventLog:
    """Loaded asset events of one task.

    :param since: start of the complete events. None: all.
    """

    reports: dict[int, list[RunDayReport]]
    since: dt.datetime | None
    fetched_at: dt.datetime

    def covers(self, moment: dt.datetime) -> bool:
        """Return True if all events from ``moment`` on are loaded."""
        return self.since is None or self.since <= moment

    def reports_of_instance(self, map_index: int) -> list[RunDayReport]:
        """Return the reports of one task instance, or of an unmapped task (-1)."""
        return [report for reports in self.reports.values() for report in reports if report.map_index == map_index]


@dataclass
class TaskProfile:
    """Connectors of a task by map index, and reports of its newest runs."""

    connectors: dict[int, ConnectorPair]
    reports: list[RunDayReport]
    has_run: bool
    fetched_at: float = field(default_factory=time.monotonic)


@dataclass
class ViewerCache:
    """Cached answers of one viewer."""

    tasks: dict[str, tuple[float, Sequence[TaskInfo]]] = field(default_factory=dict)
    profiles: dict[TaskName, TaskProfile] = field(default_factory=dict)
    logs: OrderedDict[TaskName, EventLog] = field(default_factory=OrderedDict)
    used_at: float = field(default_factory=time.monotonic)

    def store_log(self, name: TaskName, log: EventLog) -> None:
        """Store a task's events and mark them as used last."""
        self.logs[name] = log
        self.logs.move_to_end(name)


@dataclass
class PageCache:
    """Separate caches of all viewers."""

    viewers: OrderedDict[str, ViewerCache] = field(default_factory=OrderedDict)
    dags_without_tasks: dict[str, float] = field(default_factory=dict)

    def cache_of(self, token: str) -> ViewerCache:
        """Return the cache of the viewer with this token."""
        used_at, key = time.monotonic(), hashlib.sha256(token.encode()).hexdigest()
        cache = self.viewers.setdefault(key, ViewerCache())
        cache.used_at = used_at
        self.viewers.move_to_end(key)
        while len(self.viewers) > _MAX_VIEWERS or used_at - next(iter(self.viewers.values())).used_at > _IDLE_SECONDS:
            self.viewers.popitem(last=False)
        self._make_room()
        return cache

    def _make_room(self) -> None:
        event_count = sum(len(log.reports) for cache in self.viewers.values() for log in cache.logs.values())
        for cache in self.viewers.values():
            while event_count > MAX_EVENTS and cache.logs:
                _, log = cache.logs.popitem(last=False)
                event_count -= len(log.reports)

    def forget(self, token: str) -> None:
        """Delete the cache of the viewer with this token."""
        self.viewers.pop(hashlib.sha256(token.encode()).hexdigest(), None)
