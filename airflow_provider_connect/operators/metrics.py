"""Metrics of a task (``docs/metrics.md``), which Airflow sends to StatsD or OpenTelemetry."""

from __future__ import annotations

import datetime as dt
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import Failure
from airflow_provider_connect.window import ONE_DAY, zone

if TYPE_CHECKING:
    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.offsets import Offset
    from airflow_provider_connect.sink import Sink
    from airflow_provider_connect.source import Source
    from airflow_provider_connect.window import Schedule

_log = logging.getLogger(__name__)

_PREFIX = "connect"
_SUMMED = ("wire_bytes", "raw_bytes", "duplicates", "rejected")
_LONGEST_TAG = 80  # Airflow sends no name that is longer than 250 characters with all its tags
_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_./-]")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True)
class Metrics:
    """Metrics of one task. An error while sending is only logged."""

    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def for_task(cls, source: Source, sink: Sink, task: Any) -> Metrics:
        """Build the metrics of a running task instance."""
        connect_tags = {"connector": source.name, "stream": source.stream_key[:_LONGEST_TAG], "sink": sink.name}
        airflow_tags = getattr(task, "stats_tags", None) or {"dag_id": task.dag_id, "task_id": task.task_id}
        return cls(airflow_tags | {name: _NOT_IN_TAGS.sub("_", text) for name, text in connect_tags.items()})

    def send_job(self, report: JobReport) -> None:
        """Send a Spark job's figures, without days that an earlier try published."""
        published_days = [day for day in report.days if day.status == "published"]
        counts = {
            "days": len(published_days),
            "rows": sum(day.rows_written for day in published_days),
            **{name: sum(getattr(day, name) for day in published_days) for name in _SUMMED},
            "retries": sum(day.retries for day in report.days if day.status != "already_published"),
        }
        seconds = {
            **report.seconds,
            "poll": sum(day.poll_seconds for day in published_days),
            "publish": sum(day.publish_seconds for day in published_days),
        }
        with _log_errors():
            for name, count in counts.items():
                self._send("incr", name, count)
            for phase, duration in seconds.items():
                self._send("timing", "phase", dt.timedelta(seconds=duration), phase=phase)

    def send_lag(self, offset: Offset, zone_name: str, schedule: Schedule) -> None:
        """Send the days that the stream lags behind yesterday, and the age of its newest increment."""
        with _log_errors():
            yesterday = dt.datetime.now(zone(zone_name)).date() - ONE_DAY
            days = offset.settled.lag_days(yesterday, schedule)
            if days is not None:
                self._send("gauge", "lag_days", days)
            if offset.read_at is not None:
                lag = dt.datetime.now(dt.UTC) - offset.read_at
                self._send("gauge", "lag_seconds", max(0, int(lag.total_seconds())))

    def send_quota_left(self, requests: int) -> None:
        """Send the number of requests that no task has reserved."""
        with _log_errors():
            self._send("gauge", "quota.left", requests)

    def send_quota_wait(self) -> None:
        """Count one wait for room in the quota."""
        with _log_errors():
            self._send("incr", "quota.waits", 1)

    def _send(self, kind: str, name: str, value: Any, **extra_tags: str) -> None:
        from airflow.sdk.configuration import conf  # noqa: PLC0415  # not for DAG files
        from airflow.sdk.observability import stats  # noqa: PLC0415

        send: Callable[..., None] = getattr(stats, kind)
        send(f"{_PREFIX}.{name}", value, tags={**self.tags, **extra_tags})
        if conf.getboolean("metrics", "legacy_names_on", fallback=True):
            # As in Airflow's own names, a dot within a part would look like two parts.
            parts = [*extra_tags.values(), self.tags.get("dag_id", ""), self.tags.get("task_id", "")]
            suffix = ".".join(_NOT_IN_NAMES.sub("_", part.replace(".", "__")) for part in parts if part)
            send(f"{_PREFIX}.{name}.{suffix}", value)


@contextmanager
def _log_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # metrics must not fail a task
        _log.warning("Metrics were not sent: %s", Failure.from_error(error).message)
