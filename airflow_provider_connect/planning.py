"""Cost of a backfill before it starts.

>>> print(plan(MixpanelSource(), "2026-01-01..2026-12-31"))
365 days of mixpanel_default.export need at least 365 requests. At 60 requests an hour the last request can be sent 6.0
hours after the first, if this load has the quota to itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.capabilities.source import Counts
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.registry import quota_of, requests_for
from airflow_provider_connect.source import Source
from airflow_provider_connect.window import Day, parse_days


@dataclass(frozen=True)
class LoadPlan:
    """Cost of loading a stream's days. ``str()`` describes it.

    :param hours: from the first request to the last.
    :param counts: requests of ``count_quota``.
    """

    stream: str
    days: int
    requests: int
    hours: float
    quota: Quota | None
    counts: int = 0
    count_quota: Quota | None = None

    def __str__(self) -> str:
        text = (
            f"{_count_text(self.days, 'day')} of {self.stream} {'needs' if self.days == 1 else 'need'} at least "
            f"{_count_text(self.requests, 'request')}."
        )
        if self.quota is None:
            return f"{text} The source has no quota."
        if not self.hours:
            text += f" {self.quota.describe().capitalize()} have room for them."
        else:
            text += (
                f" At {self.quota.describe()} the last request can be sent {self.hours:.1f} hours after the "
                "first, if this load has the quota to itself."
            )
        if self.count_quota is not None:
            hours = _hours_between(self.counts, self.count_quota)
            text += (
                f" Counting the days first takes up to {_count_text(self.counts, 'request')} of another quota, and at "
                f"{self.count_quota.describe()} up to {hours:.1f} hours."
            )
        return text


def plan(source: Source, days: str | Sequence[Day], *, connection: Connection | None = None) -> LoadPlan:
    """Compute the cost of loading days. Reads only the connection from Airflow.

    :param days: list of days, or text such as ``2026-01-01..2026-12-31``.
    :param connection: None reads it from Airflow.
    :raises ConfigError: no or a wrong connection.
    """
    day_list = parse_days(days, source.timezone) if isinstance(days, str) else list(days)
    source_connection = connection or credentials.resolve_connection(source.conn_id)
    return plan_runs(source, [day_list], connection=source_connection)


def plan_runs(source: Source, runs: Sequence[Sequence[Day]], *, connection: Connection) -> LoadPlan:
    """Compute the cost of several runs, which share no request. Reads nothing.

    :raises ConfigError: the connection is wrong.
    """
    quota = quota_of(source, connection)
    requests = sum(requests_for(source, days) for days in runs)
    hours = _hours_between(requests, quota) if quota is not None else 0.0
    counting = source.capability(Counts) or Counts()
    count_quota = counting.count_quota(connection) if counting.counts_first else None
    counts = sum(counting.requests_to_count(days) for days in runs) if counting.counts_first else 0
    return LoadPlan(source.stream_key, sum(map(len, runs)), requests, hours, quota, counts, count_quota)


def _hours_between(requests: int, quota: Quota) -> float:
    return max(0, math.ceil(requests / quota.requests) - 1) * quota.seconds / 3600


def _count_text(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
