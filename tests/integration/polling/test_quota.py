"""Twenty runs at once against the stand-in with its limit on (H10), without Spark: an hour lasts seconds here."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable

import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.quota.limits import QuotaClaim
from airflow_provider_connect.polling.quota.turns import QuotaWait, Turns
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day
from tests.equipment.quota import Keys
from tests.standins.mixpanel.access import Limits
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

HOUR = 5.0
LIMIT = 10
RUNS = 20
DAYS_EACH = 2


class Run:
    """A run of two days: what its task and its job do, as far as requests go."""

    def __init__(self, number: int, keys: Keys, server: StandIn) -> None:
        account = server.account
        extra = {"project_id": account.project_id, "limits": {"export": {"requests": LIMIT, "seconds": HOUR}}}
        self.connection = Connection(
            conn_id="m", host=server.url, login=account.username, password=account.secret, extra=extra
        )
        self.source = MixpanelSource()
        self.turns = Turns(keys, self.source.quota(self.connection))
        self.want = QuotaClaim(f"run{number:02}", 1)
        self.days = [
            Day(date=dt.date(2026, 1, 1) + dt.timedelta(days=DAYS_EACH * number + each)) for each in range(DAYS_EACH)
        ]
        self.sent: list[float] = []
        self.refused: list[RetriableError] = []

    def __call__(self) -> None:
        for day in self.days:
            while isinstance(got := self.turns.reserve(self.want), QuotaWait):
                self._wait(got)
            tally = Tally()
            try:
                self._poll(day, tally)
            except RetriableError as error:
                self.refused.append(error)
            # The slack of a true hour, five seconds, covers a request's way to the vendor; that of this one does not.
            sent = [time.time() for _ in tally.sent]
            self.turns.settle(got, sent)
            self.sent += sent

    def _wait(self, wait: QuotaWait) -> None:
        """Do what the trigger does."""
        while True:
            time.sleep(max(0.0, min(wait.until - time.time(), HOUR / 60)))
            if self.turns.has_room(self.want):
                return
            if time.time() >= wait.until:
                wait = self.turns.join_queue(self.want)

    def _poll(self, day: Day, tally: Tally) -> None:
        with self.source.open(self.connection, PollContext()) as poller:
            (part,) = poller.plan([day])
            for _ in poller.poll(part, tally):
                pass


def race(runs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=run) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a run starves"


def test_twenty_runs_at_once_are_never_refused_and_use_the_hour() -> None:
    keys = Keys()
    # The stand-in itself refuses the eleventh request of an hour.
    limits = Limits(queries_per_hour=LIMIT, hour_seconds=HOUR)
    with StandIn(Project(events_per_day=3), limits=limits) as server:
        runs = [Run(number, keys, server) for number in range(RUNS)]
        race(list(runs))
    sent = sorted(at for run in runs for at in run.sent)
    assert [error for run in runs for error in run.refused] == []
    assert len(sent) == RUNS * DAYS_EACH
    hours = (sent[-1] - sent[0]) / HOUR
    # The last ten need no time after they were sent.
    assert (len(sent) - LIMIT) / LIMIT / hours >= 0.9, hours


def test_without_a_reservation_runs_are_refused() -> None:
    """What the test above finds out."""
    limits = Limits(queries_per_hour=LIMIT, hour_seconds=HOUR)
    with StandIn(Project(events_per_day=3), limits=limits) as server:
        runs = [Run(number, Keys(), server) for number in range(RUNS)]
        race(list(runs))
    assert any(run.refused for run in runs)
