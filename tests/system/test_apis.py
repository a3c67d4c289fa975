"""Catchup from a declared REST API, and from X, while both are in trouble: nothing lost, nothing doubled."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.equipment.airflow.backfills import PATIENCE_SECONDS
from tests.equipment.airflow.caught_up import is_done, require_done, tries
from tests.equipment.rest_api.items import items_of
from tests.equipment.rest_api.server import Answer, Request, RestApi
from tests.equipment.x import QUERIES
from tests.standins.x.faults import Fault
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn
from tests.system.conftest import System, wait_for

pytestmark = pytest.mark.slow

DATES = [dt.date(2026, 10, day) for day in range(1, 8)]
DAGS = {"rest_catchup": DATES, "x_catchup": DATES[:4]}
DOWN = DATES[2]
"""The day on which an API answers nobody until the task's first try has failed."""
X_FAULTS = (
    "status",
    "reset",
    "short_length",
    "empty_page",
    "page_again",
    "overlap",
    "html",
    "short_page",
)


class Trouble:
    """What the REST API does beside answering: each day's second page fails once, in a way of its own."""

    ANSWERS = (
        Answer({"error": "busy"}, 503, {"Retry-After": "0"}),
        Answer({"error": "too many"}, 429, {"Retry-After": "1"}),
        Answer({"error": "oops"}, 500),
        Answer({"items": [], "more": False, "total": 0}, cut=9),
        Answer(raw=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}),
        Answer({"items": [], "more": None}),
    )

    def __init__(self) -> None:
        self.happened: Counter[int] = Counter()
        self._told: set[str] = set()
        self._down = 20
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Answer | None:
        day, page = request.first("since")[:10], request.first("page", "1")
        with self._lock:
            if day == str(DOWN) and self._down:
                self._down -= 1
                return Answer({"error": "down"}, 502)
            if page != "2" or day in self._told:
                return None
            self._told.add(day)
            kind = DATES.index(dt.date.fromisoformat(day)) % len(self.ANSWERS)
            self.happened[kind] += 1
        answer = self.ANSWERS[kind]
        return Answer(answer.document, answer.status, dict(answer.headers), answer.raw, answer.cut)

    def let_through(self) -> None:
        """Answer on the day, too, on which nobody was answered."""
        with self._lock:
            self._down = 0


@pytest.fixture(scope="module")
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture(scope="module")
def api(trouble: Trouble) -> Iterator[RestApi]:
    items = [each for at, date in enumerate(DATES) for each in items_of(date, 25 + at, first_id=100 * at + 1)]
    with RestApi(items) as api:
        api.faults.append(trouble)
        yield api


@pytest.fixture(scope="module")
def x() -> Iterator[StandIn]:
    timeline = Timeline(seed=5, posts_per_day=60, deleted_per_day=3, edited_per_day=3, gone_references_per_day=3)
    with StandIn(timeline, most_posts=50) as x:
        dates = itertools.cycle(DAGS["x_catchup"])
        faults = [Fault(kind, date=date, page=1) for kind, date in zip(X_FAULTS, dates, strict=False)]
        x.faults.replace([Fault("status", date=DOWN, times=5), *faults])
        yield x


@pytest.fixture(scope="module", autouse=True)
def caught_up(system: System, api: RestApi, x: StandIn, trouble: Trouble) -> None:
    """Let both DAGs catch up side by side."""
    auth = json.dumps({"auth": "none"})
    limits = json.dumps({"limits": {"all": {"per_second": 1000}}})
    for connection in (
        {"connection_id": "api", "conn_type": "http", "host": "http://127.0.0.1", "port": api.port, "extra": auth},
        {"connection_id": "x", "conn_type": "x", "host": x.url, "password": x.app.token, "extra": limits},
    ):
        system.airflow.api("POST", "connections", json=connection)
    for dag_id in DAGS:
        system.airflow.wait_for_dag(dag_id)
        system.airflow.api("PATCH", f"dags/{dag_id}?update_mask=is_paused", json={"is_paused": False})
    wait_for(lambda: tries(system, "rest_catchup").get(str(DOWN), 0) > 1, PATIENCE_SECONDS, "a second try")
    trouble.let_through()
    wait_for(lambda: all(is_done(system, *each) for each in DAGS.items()), PATIENCE_SECONDS, "all runs")


def test_a_week_of_a_declared_api_in_trouble(system: System, api: RestApi, trouble: Trouble) -> None:
    expected: dict[str, list[str]] = {}
    for each in api.items:
        expected.setdefault(each["at"][:10], []).append(str(each["id"]))
    require_done(system, "rest_catchup", expected)
    assert set(trouble.happened) == set(range(len(Trouble.ANSWERS))), "not every fault has happened"
    assert tries(system, "rest_catchup")[str(DOWN)] > 1


def test_days_of_x_in_trouble(system: System, x: StandIn) -> None:
    require_done(system, "x_catchup", {str(date): list(x.timeline.truth(date, *QUERIES)) for date in DAGS["x_catchup"]})
    assert not x.faults.remaining(), "not every fault has happened"
