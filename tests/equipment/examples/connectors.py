"""Loads the worked examples of docs/connectors.md, which are in no package, and connects them to their stand-ins."""

from __future__ import annotations

import base64
import datetime as dt
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.testing import Served, Target
from airflow_provider_connect.window import Day
from tests.equipment.examples.index_store import PASSWORD, USER, IndexStore
from tests.equipment.examples.json_server import JsonServer
from tests.equipment.examples.shop import TOKEN, Shop

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
DATE = dt.date(2026, 10, 5)
ORDERS = 5


def load(name: str) -> ModuleType:
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@contextmanager
def shop_server() -> Iterator[Served]:
    with JsonServer(Shop({DATE: ORDERS}), f"Bearer {TOKEN}") as server:
        connection = Connection(
            conn_id="shop",
            conn_type="http",
            host="http://127.0.0.1",
            port=server.port,
            password=TOKEN,
            extra={"auth": "bearer"},
        )
        yield Served(connection, Day(date=DATE), rows=ORDERS)


@contextmanager
def store_server(store: IndexStore) -> Iterator[tuple[JsonServer, Target]]:
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    with JsonServer(store, f"Basic {basic}") as server:
        connection = Connection(
            conn_id="store", conn_type="http", host="http://127.0.0.1", port=server.port, login=USER, password=PASSWORD
        )
        sink = load("alias_store").AliasStoreSink(conn_id="store", alias="events")

        def rows() -> list[tuple[dt.date, str]]:
            seen = store.search("events:")
            return [(dt.date.fromisoformat(alias.rpartition(":")[2]), document["event"]) for alias, document in seen]

        def age() -> None:
            store.now += 2 * 86_400.0

        yield server, Target(sink=sink, rows=rows, connections={"store": connection}, age=age)
