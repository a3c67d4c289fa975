"""A source in trouble does not use up what a vendor allows in an hour: the budget counts requests, not only seconds."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.job import DayReport
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.poll import PollOutcome, PollTask, run_poll_tasks, stage_partition
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.window import Day, days_between
from tests.equipment.clock import NoTime
from tests.equipment.http.raw_server import RawServer
from tests.equipment.spark.lab import Fixed
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

DAY = Day(date=dt.date(2026, 10, 5))
TRIES = 4  # of a task: the first, and the operator's three retries
HOURLY_LIMIT = 60


@pytest.fixture(scope="module")
def standin() -> Iterator[StandIn]:
    with StandIn(Project(events_per_day=5)) as server:
        yield server


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.patience.CLOCK", NoTime())


def requests_of(server: StandIn) -> int:
    return sum(sum(by.values()) for by in server.stats["requests"].values())


def connection_to(url: str, server: StandIn) -> Connection:
    account = server.account
    extra = {"project_id": account.project_id}
    return Connection(conn_id="m", host=url, login=account.username, password=account.secret, extra=extra)


def task_of(stage: Path, connection: Connection, day: Day, **options: int) -> PollTask:
    source = MixpanelSource(**options)
    with source.open(connection, PollContext()) as poller:
        (part,) = poller.plan([day])
    return PollTask(
        source_name="mixpanel",
        source=source.serialize(),
        part=part,
        root=str(stage),
        attempts=("a-1",),
        progress_seconds=1,
    )


def schema_of(connection: Connection) -> pa.Schema:
    return MixpanelSource().open(connection, PollContext()).schema()


def poll(server: StandIn, stage: Path, **options: int) -> tuple[PollResult | RetriableError, int]:
    """Poll a day as an executor does, without its waits; return also how many requests it took."""
    before = requests_of(server)
    try:
        task, connection = (
            task_of(stage, connection_to(server.url, server), DAY, **options),
            connection_to(server.url, server),
        )
        found: PollResult | RetriableError = stage_partition(task, schema_of(connection), connection, clock=NoTime())[
            DAY.date
        ]
    except RetriableError as error:
        found = error
    return found, requests_of(server) - before


def test_a_lasting_500_leaves_most_of_the_hour(standin: StandIn, tmp_path: Path) -> None:
    standin.faults.replace([Fault("status", status=500, times=None)])
    asked = [poll(standin, tmp_path)[1] for _ in range(TRIES)]
    assert asked == [5, 5, 5, 5]
    assert sum(asked) <= HOURLY_LIMIT / 3


def test_the_message_has_the_requests_that_were_spent(standin: StandIn, tmp_path: Path) -> None:
    standin.faults.replace([Fault("status", status=500, times=None)])
    error, asked = poll(standin, tmp_path, retry_budget_requests=2)
    assert asked == 2
    assert "with 2 of retry_budget_requests=2" in str(error)


def test_a_cut_answer_counts_as_a_refused_one_does(standin: StandIn, tmp_path: Path) -> None:
    standin.faults.replace([Fault("cut_gzip", times=None)])
    assert poll(standin, tmp_path)[1] == 5


@pytest.mark.parametrize(("faults", "is_polled"), [(4, True), (5, False)])
def test_trouble_that_ends_within_the_budget_is_no_failure(
    standin: StandIn, tmp_path: Path, faults: int, is_polled: bool
) -> None:
    standin.faults.replace([Fault("status", status=500, times=faults)])
    found, asked = poll(standin, tmp_path)
    assert isinstance(found, PollResult) is is_polled
    assert asked == 5


def test_a_budget_of_one_request_is_the_smallest(standin: StandIn, tmp_path: Path) -> None:
    standin.faults.replace([Fault("status", status=500, times=None)])
    assert poll(standin, tmp_path, retry_budget_requests=1)[1] == 1


def test_a_server_that_cannot_be_reached_for_a_while_is_asked_beyond_the_budget_of_requests(
    standin: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent, and so nothing counted there: how long one goes on is for the budget of seconds to say."""
    resolved = socket.getaddrinfo
    away = iter(range(2 * 8))  # a connection asks for the name, and for the address that it goes to

    def restarting(host: str, port: int, *more: Any, **options: Any) -> Any:
        return resolved(host, port if next(away, None) is None else 9, *more, **options)

    monkeypatch.setattr("socket.getaddrinfo", restarting)
    standin.faults.replace([Fault("status", status=500, times=3)])
    found, asked = poll(standin, tmp_path)
    assert isinstance(found, PollResult)
    assert (found.retries, asked) == (8 + 3, 4)


@pytest.mark.parametrize(
    ("fault", "requests"), [("refused", 0), ("no such name", 0), ("no tls", 0), ("no proxy", 0), ("no answer", 1)]
)
def test_what_was_sent_counts_and_nothing_else(standin: StandIn, fault: str, requests: int) -> None:
    with RawServer(lambda peer: None, hears=fault == "no answer") as broken:
        urls = {"refused": "http://127.0.0.1:9", "no such name": "https://name.invalid", "no answer": broken.url}
        url = urls.get(fault, broken.url.replace("http:", "https:"))
        connection = connection_to(url, standin)
        if fault == "no proxy":
            connection.extra["proxy"] = "http://127.0.0.1:9"
        tally = Tally()
        with MixpanelSource().open(connection, PollContext()) as poller:
            (part,) = poller.plan([DAY])
            with pytest.raises(RetriableError):
                list(poller.poll(part, tally))
    assert tally.requests == requests


class Window:
    """Stands where ``Days`` stands: polls each day as an executor does, and answers with what crosses the JVM."""

    def __init__(self, server: StandIn, stage: Path, days: int) -> None:
        self.connection = connection_to(server.url, server)
        self.stage = stage
        self.job = SimpleNamespace(
            all_days=days_between(DAY.date, DAY.date + dt.timedelta(days=days - 1), "UTC"), lookback=()
        )

    def run(self, days: Sequence[Day]) -> list[DayReport]:
        (day,) = days
        task = task_of(self.stage, self.connection, day).model_dump_json()
        (answer,) = run_poll_tasks([task], schema=schema_of(self.connection), connection=self.connection)
        failure = PollOutcome.model_validate_json(answer).failure
        return [DayReport.for_day(day, "failed" if failure else "published", failure=failure)]


@pytest.mark.parametrize("width", [1, 4])
def test_a_lasting_500_costs_a_window_no_more_than_the_days_that_are_polled_at_once(
    standin: StandIn, tmp_path: Path, no_wait: None, width: int
) -> None:
    standin.faults.replace([Fault("status", status=500, times=None)])
    before = requests_of(standin)
    window: Any = Window(standin, tmp_path, days=30)
    reports = run_all_days(window, Fixed(1), width)
    failed = sum(report.status == "failed" for report in reports)
    assert requests_of(standin) - before == 5 * failed
    assert 1 <= failed <= width, "the first may have stopped the others before they began"
    assert sum(report.status == "not_started" for report in reports) == 30 - failed


def test_trouble_that_is_over_within_the_budget_stops_no_further_day(
    standin: StandIn, tmp_path: Path, no_wait: None
) -> None:
    standin.faults.replace([Fault("status", status=500, times=4)])
    window: Any = Window(standin, tmp_path, days=3)
    assert {report.status for report in run_all_days(window, Fixed(1), 1)} == {"published"}
