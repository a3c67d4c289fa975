"""What all tests of the JsonApi need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_connect.clients.http import auth
from airflow_provider_connect.clients.http.asking import pacing
from airflow_provider_connect.clients.http.json_api import JsonApi
from airflow_provider_connect.connection import Connection
from tests.equipment.clock import NoTime
from tests.equipment.http.answering import AnsweringServer

CANARY = "canary-7f"


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may come twice, and with it what another test left in this process."""
    monkeypatch.setattr(auth, "_login_states", {})
    monkeypatch.setattr(pacing, "_paces", {})


@pytest.fixture
def clock() -> NoTime:
    return NoTime()


@pytest.fixture
def asker_of(clock: NoTime) -> Iterator[Callable[..., JsonApi]]:
    made: list[JsonApi] = []

    def make(server: AnsweringServer, **options: Any) -> JsonApi:
        extra = options.pop("extra", {})
        fields = {name: options.pop(name) for name in ("login", "password") if name in options}
        path = options.pop("path", "")
        connection = Connection(conn_id="c", conn_type="http", host=server.url + path, extra=extra, **fields)
        made.append(JsonApi(connection, clock=clock, **({"patience_seconds": 300.0} | options)))
        return made[-1]

    yield make
    for asker in made:
        asker.close()
