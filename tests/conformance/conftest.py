"""Makes an instance of every connector file there is, from its own options' examples and defaults.

A new file in ``sources/`` or ``sinks/`` is picked up by itself: its required options need ``Field(examples=[…])``. The
example connection comes from the connection form in ``provider_info``; absolute example paths move under ``tmp_path``.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.provider_info import get_provider_info
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source

LOGIN, PASSWORD = "canary-user-7f3a", "canary'pass\"{{ 9c1e"
EXAMPLE_NUMBER = "12345"
SERVED = {"bigquery", "kafka"}
"""Sinks whose tests need a server: the fixture ``<name>_target`` gives a sink, its connection and a reader."""


def example(cls: type[Options], folder: Path) -> Any:
    """Make an instance: every required option from its first example."""
    options = {}
    for name, field in cls.model_fields.items():
        if field.is_required():
            assert field.examples, f"{cls.__name__}.{name} is required and has no Field(examples=[…])"
            options[name] = _moved(field.examples[0], folder)
    return cls(**options)


def _moved(value: Any, folder: Path) -> Any:
    if not (isinstance(value, str) and value.startswith("/")):
        return value
    path = folder / value.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    return str(path)


def form_fields(connection_type: str) -> dict[str, dict[str, Any]]:
    """Return the JSON schema of each extra field that the connection's form has."""
    types = {entry["connection-type"]: entry for entry in get_provider_info()["connection-types"]}
    return {name: field["schema"] for name, field in types[connection_type].get("conn-fields", {}).items()}


def _extra(connection_type: str) -> dict[str, str]:
    chosen = {}
    for name, schema in form_fields(connection_type).items():
        if "enum" in schema:
            chosen[name] = schema["enum"][0]
        elif "default" in schema:
            chosen[name] = schema["default"]
        elif re.search(schema.get("pattern", "(?!)"), EXAMPLE_NUMBER):
            chosen[name] = EXAMPLE_NUMBER
    return chosen


@pytest.fixture(params=registry.names("sources"))
def source_class(request: pytest.FixtureRequest) -> type[Source]:
    return registry.source_class(request.param)


@pytest.fixture
def source(source_class: type[Source], tmp_path: Path) -> Source:
    return example(source_class, tmp_path)


SINKS = [pytest.param(name, marks=[pytest.mark.slow] * (name in SERVED)) for name in registry.names("sinks")]


@pytest.fixture(params=SINKS)
def sink_class(request: pytest.FixtureRequest) -> type[Sink]:
    return registry.sink_class(request.param)


@pytest.fixture
def sink(sink_class: type[Sink], tmp_path: Path) -> Sink:
    return example(sink_class, tmp_path)


@pytest.fixture(params=[("sources", name) for name in registry.names("sources")]
                + [("sinks", name) for name in registry.names("sinks")], ids="-".join)  # fmt: skip
def connector(request: pytest.FixtureRequest) -> tuple[str, str, type[Options]]:
    """Room, name and class of a connector, for what sources and sinks have in common."""
    room, name = request.param
    return room, name, registry.source_class(name) if room == "sources" else registry.sink_class(name)


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """Hold a port at which every connection is refused."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder


def connection_to(source: Source, holder: socket.socket) -> Connection:
    """Return a connection as the form would make it, to a port of this machine."""
    return Connection(
        conn_id=source.conn_id,
        conn_type=source.connection_types[0],
        host="http://127.0.0.1",
        port=holder.getsockname()[1],
        login=LOGIN,
        password=PASSWORD,
        extra=_extra(source.connection_types[0]),
    )
