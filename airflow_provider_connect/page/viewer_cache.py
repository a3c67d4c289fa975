"""What one viewer's earlier questions were answered, so that the next one asks Airflow for news alone.

Nothing that one viewer was told is ever used for another: the key is the viewer's own token. Whatever stands here was
answered to that token, and each answer of ours begins with questions that Airflow judges anew. Only one thing is
shared, and it tells nothing: which DAGs had no task of ours a minute ago.
"""

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
"""Of all viewers together: some fifty megabytes."""


class TaskName(NamedTuple):
    """A task of ours."""

    dag_id: str
    task_id: str


class TaskInfo(NamedTuple):
    """A task of ours, and what Airflow's API calls its kind.

    :param operator: the class's name, by which task instances can be listed.
    :param end_date: the task's, or its DAG's if that is earlier.
    """

    name: TaskName
    class_name: str
    end_date: dt.datetime | None = None


@dataclass
class EventLog:
    """The events of one task that have been asked for.

    :param reports: by event.
    :param since: from when on all events are here; None for all there are.
    :param asked_at: when Airflow was asked last.
    """

    reports: dict[int, list[RunDayReport]]
    since: dt.datetime | None
    fetched_at: dt.datetime

    def covers(self, moment: dt.datetime) -> bool:
        """Tell whether all events from a moment on are here."""
        return self.since is None or self.since <= moment

    def reports_of_instance(self, map_index: int) -> list[RunDayReport]:
        """Return the reports of one instance of the task."""
        return [report for reports in self.reports.values() for report in reports if report.map_index == map_index]


@dataclass
class TaskProfile:
    """The pipelines of a task by map index, and what its newest runs were."""

    connectors: dict[int, ConnectorPair]
    reports: list[RunDayReport]
    has_run: bool
    fetched_at: float = field(default_factory=time.monotonic)


@dataclass
class ViewerCache:
    """What one viewer was told."""

    tasks: dict[str, tuple[float, Sequence[TaskInfo]]] = field(default_factory=dict)
    profiles: dict[TaskName, TaskProfile] = field(default_factory=dict)
    logs: OrderedDict[TaskName, EventLog] = field(default_factory=OrderedDict)
    used_at: float = field(default_factory=time.monotonic)

    def store_log(self, name: TaskName, log: EventLog) -> None:
        """Remember the events of a task, as those that were asked for last."""
        self.logs[name] = log
        self.logs.move_to_end(name)


@dataclass
class PageCache:
    """What all viewers were told, each apart.

    :param without: when a DAG was last seen to have no task of ours.
    """

    viewers: OrderedDict[str, ViewerCache] = field(default_factory=OrderedDict)
    dags_without_tasks: dict[str, float] = field(default_factory=dict)

    def cache_of(self, token: str) -> ViewerCache:
        """Return what the owner of a token was told."""
        used_at, key = time.monotonic(), hashlib.sha256(token.encode()).hexdigest()
        cache = self.viewers.setdefault(key, ViewerCache())
        cache.used_at = used_at
        self.viewers.move_to_end(key)
        while len(self.viewers) > _MAX_VIEWERS or used_at - next(iter(self.viewers.values())).used_at > _IDLE_SECONDS:
            self.viewers.popitem(last=False)
        self._make_room()
        return cache

    def _make_room(self) -> None:
        """Forget events, those first that were longest not asked for."""
        event_count = sum(len(log.reports) for cache in self.viewers.values() for log in cache.logs.values())
        for cache in self.viewers.values():
            while event_count > MAX_EVENTS and cache.logs:
                _, log = cache.logs.popitem(last=False)
                event_count -= len(log.reports)

    def forget(self, token: str) -> None:
        """Forget what the owner of a token was told."""
        self.viewers.pop(hashlib.sha256(token.encode()).hexdigest(), None)
