from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.sources._x_search import client
from tests.equipment.clock import NoTime
from tests.equipment.x import NOW
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn

TIMELINE = Timeline(seed=3, posts_per_day=80, deleted_per_day=4, edited_per_day=3, gone_references_per_day=4)


class Clock(NoTime):
    """One clock for the server's windows and for whoever waits for them."""

    def instant(self) -> dt.datetime:
        return NOW + dt.timedelta(seconds=self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(client, "CLOCK", clock)
    monkeypatch.setattr(client, "current_time", clock.instant)
    monkeypatch.setattr(pacing, "_paces", {})  # a port may come twice, and with it the pace of another test
    return clock


@pytest.fixture
def x(clock: Clock) -> Iterator[StandIn]:
    with StandIn(TIMELINE, now=clock.instant, most_posts=20) as standin:
        yield standin
