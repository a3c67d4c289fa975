"""A limit of the source is divided by the job's processes, and never rounded up: there are fewer processes instead."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from airflow_provider_connect.clients.http.asking.pacing import RequestPace
from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.patience import SystemClock
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.rest import Single
from airflow_provider_connect.spark.composition import max_polls
from tests.equipment.rest_api.reading import declared

CONNECTION = Connection(conn_id="api", conn_type="http", host="https://api.example")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, None),
        ({"per_hour": 10}, None),
        ({"at_once": 1}, 1),
        ({"at_once": 3, "per_second": 2}, 2),
        ({"per_second": 0.5}, 1),
        ({"per_minute": 1, "at_once": 9}, 1),
    ],
)
def test_as_many_processes_poll_as_the_limits_have_whole_parts(limits: dict[str, Any], expected: int | None) -> None:
    assert RateLimits(**limits).max_processes == expected
    poller = declared("/x", Single(), limits=limits or None).open(CONNECTION, PollContext())
    assert max_polls(poller, sys.maxsize) == (expected or sys.maxsize)
    assert max_polls(poller, 1) == 1


@pytest.mark.parametrize("limits", [{"at_once": 3, "per_second": 2}, {"per_second": 2.5}, {"at_once": 4}])
def test_the_parts_of_all_processes_together_keep_the_limit(limits: dict[str, Any]) -> None:
    declared_limits = RateLimits(**limits)
    processes = declared_limits.max_processes or 1
    paces = [RequestPace(declared_limits, processes) for _ in range(processes)]
    if declared_limits.per_second is not None:
        sent = sum(pace.wait_seconds(0.0) == 0 for pace in paces for _ in range(9))
        assert 0 < sent <= declared_limits.per_second
    if declared_limits.at_once is not None:
        slots = [pace.concurrency_slot(SystemClock(), _ended) for pace in paces for _ in range(9)]
        assert 0 < sum(_enters(slot) for slot in slots) <= declared_limits.at_once


def _ended() -> None:
    raise TimeoutError


def _enters(slot: Any) -> bool:
    try:
        slot.__enter__()
    except TimeoutError:
        return False
    return True
