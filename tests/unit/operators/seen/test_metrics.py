"""The metrics of a task, as they leave it: Airflow's own StatsD logger, and a socket that listens."""

from __future__ import annotations

import datetime as dt
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk._shared.observability.metrics import stats
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.exceptions import TaskDeferred
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory

from airflow_provider_connect.capabilities.source import HasQuota
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.operators.metrics import Metrics
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Turns
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.timetables import daily
from airflow_provider_connect.window import DaySet, Schedule
from tests.equipment.airflow.connectors import TinyLedger, TinySink, TinySource
from tests.unit.operators.conftest import SparkSubmit, Supervisor, Task


class UdpClient:
    """What Airflow needs of the ``statsd`` package's client: the lines of https://github.com/statsd/statsd."""

    def __init__(self, host: str, port: int, prefix: str, ipv6: bool) -> None:
        self.to, self.prefix = (host, port), prefix
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send(self, stat: str, text: str) -> None:
        self.socket.sendto(f"{self.prefix}.{stat}:{text}".encode(), self.to)

    def incr(self, stat: str, count: int = 1, rate: float = 1) -> None:
        self.send(stat, f"{count}|c")

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False) -> None:
        self.send(stat, f"{value}|g")

    def timing(self, stat: str, delta: dt.timedelta) -> None:
        self.send(stat, f"{delta.total_seconds() * 1000:.0f}|ms")


class Statsd:
    """A StatsD server of its own: keeps the lines that came."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)

    def lines(self) -> dict[str, str]:
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return dict(line.rsplit(":", 1) for line in found)


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Statsd]:
    """Airflow's metrics, switched on as a user does it, but for the client's package, which a test can do without."""
    server = Statsd()
    port = server.socket.getsockname()[1]
    wanted = {"STATSD_ON": "True", "STATSD_INFLUXDB_ENABLED": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": port}
    for name, value in wanted.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", str(value))
    monkeypatch.setitem(sys.modules, "statsd", SimpleNamespace(StatsClient=UdpClient))
    stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
    yield server
    server.socket.close()
    stats._get_backend().statsd.socket.close()
    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


WORKED = """
publish("2026-10-05")
day = dict(day="2026-10-05", status="published", generation=1, rows_written=10, rows_read=12, wire_bytes=90,
           raw_bytes=900, duplicates=1, rejected=1, retries=2, poll_seconds=1.5, publish_seconds=0.5)
report(day, seconds=dict(start=3, work=2, total=6))
"""


def test_a_jobs_figures_are_sent_to_statsd(task: Task, spark_submit: SparkSubmit, statsd: Statsd) -> None:
    spark_submit.does(WORKED)
    task.run()
    lines = statsd.lines()
    tags = ",dag_id=dag,task_id=events,connector=tiny,stream=events,sink=tiny"
    counted = {"days": 1, "rows": 10, "wire_bytes": 90, "raw_bytes": 900, "duplicates": 1, "rejected": 1, "retries": 2}
    for name, count in counted.items():
        assert lines[f"airflow.connect.{name}{tags}"] == f"{count}|c"
        assert lines[f"airflow.connect.{name}.dag.events"] == f"{count}|c"
    for phase, milliseconds in {"start": 3000, "poll": 1500, "publish": 500, "total": 6000}.items():
        assert lines[f"airflow.connect.phase{tags},phase={phase}"] == f"{milliseconds}|ms"
        assert lines[f"airflow.connect.phase.{phase}.dag.events"] == f"{milliseconds}|ms"
    assert lines[f"airflow.connect.lag_days{tags}"] == "0|g"


@pytest.mark.parametrize(
    ("schedule", "end_date", "lag"),
    [
        (daily(), None, 10_000),
        (daily(), "2026-10-09T00+00:00", 4),  # its last run is that of the 9th
        (daily(), "2026-10-08T23+00:00", 3),
        (daily(), "2026-10-05T00+00:00", 0),
        (daily("US/Pacific"), "2026-10-09T00+00:00", 3),  # in which the 9th begins seven hours after its end date
        (None, None, 0),
    ],
)
@pytest.mark.parametrize("of", ["dag", "task"])
def test_lag_ends_with_the_end_dates_of_dag_and_task(
    ledger: TinyLedger,
    spark_submit: SparkSubmit,
    supervisor: Supervisor,
    statsd: Statsd,
    schedule: Any,
    end_date: str | None,
    lag: int,
    of: str,
) -> None:
    spark_submit.does(WORKED)
    zone_name = str(getattr(schedule, "timezone", "UTC"))
    source = TinySource(conn_id="tiny_default", zone_name=zone_name)
    ends = {} if end_date is None else {"end_date": dt.datetime.fromisoformat(end_date)}
    task = Task(ledger, dag={"schedule": schedule} | (ends if of == "dag" else {}), source=source,
                days="2026-10-05", **(ends if of == "task" else {}))  # fmt: skip
    task.run()
    behind = (dt.datetime.now(ZoneInfo(zone_name)).date() - dt.date(2026, 10, 6)).days
    assert statsd.lines()["airflow.connect.lag_days.dag.events"] == f"{min(lag, behind)}|g"


def send_lag_of_increments() -> None:
    followed = SqlSource(conn_id="c", table="t", mode="incrementing", incrementing_column="id")
    read_at = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)
    offset = Offset.from_published(followed, TinySink(), DaySet(), None).model_copy(update={"read_at": read_at})
    metrics = Metrics.for_task(followed, TinySink(), SimpleNamespace(dag_id="dag", task_id="events"))
    metrics.send_lag(offset, "UTC", Schedule())


def test_the_age_of_the_newest_increment_is_a_gauge(statsd: Statsd) -> None:
    send_lag_of_increments()
    assert 600 <= int(statsd.lines()["airflow.connect.lag_seconds.dag.events"].removesuffix("|g")) < 700


QUOTA = Quota("tiny", requests=3)


class CountedSource(TinySource, HasQuota):
    def quota(self, connection: Connection) -> Quota | None:
        return QUOTA


def test_a_quotas_remaining_requests_and_waits_are_sent(
    ledger: TinyLedger, task: Task, spark_submit: SparkSubmit, statsd: Statsd
) -> None:
    spark_submit.does(WORKED.replace("report(day", "report(day, sent=[1.0]"))
    Task(ledger, source=CountedSource(conn_id="tiny_default")).run()
    lines = statsd.lines()
    assert lines["airflow.connect.quota.left.dag.events"] == "2|g"
    sent = {line.split(",")[0].removeprefix("airflow.") for line in lines if "," in line}

    Turns(VariableStore(), QUOTA).reserve(QuotaClaim("other", 3))
    with pytest.raises(TaskDeferred):
        Task(ledger, source=CountedSource(conn_id="tiny_default")).run()
    send_lag_of_increments()
    lines = statsd.lines()
    assert lines["airflow.connect.quota.waits.dag.events"] == "1|c"
    sent |= {line.split(",")[0].removeprefix("airflow.") for line in lines if "," in line}

    page = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text()
    assert set(re.findall(r"^\| `(connect\.[a-z_.]+)`", page, re.MULTILINE)) == sent


def test_days_of_an_earlier_try_are_not_counted_twice(task: Task, spark_submit: SparkSubmit, statsd: Statsd) -> None:
    spark_submit.does(WORKED.replace('status="published"', 'status="already_published"'))
    task.run()
    lines = statsd.lines()
    assert {lines[f"airflow.connect.{name}.dag.events"] for name in ("days", "rows", "retries", "rejected")} == {"0|c"}


def test_metrics_that_cannot_be_sent_fail_no_task(
    task: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr("airflow.sdk.observability.stats.incr", broken)
    spark_submit.does(WORKED)
    task.run()
    assert "Metrics were not sent: unexpected OSError" in caplog.text
