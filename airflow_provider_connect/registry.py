"""Finds a connector by name: that of its file in ``sources/`` or ``sinks/``, or of an entry point."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source


def names(room: str) -> list[str]:
    """Return the names of all connectors in ``room`` (``sources`` or ``sinks``), those of other packages included.

    A name of ours is always ours: an entry point of the same name is ignored.
    """
    return sorted(_ours(room) | set(_others(room)))


def source_class(name: str) -> type[Source]:
    """Return the source class called ``name``.

    :raises ConfigError: if there is none.
    """
    return _connector("sources", name, Source)


def sink_class(name: str) -> type[Sink]:
    """Return the sink class called ``name``.

    :raises ConfigError: if there is none.
    """
    return _connector("sinks", name, Sink)


def _ours(room: str) -> set[str]:
    package = importlib.import_module(f"airflow_provider_connect.{room}")
    return {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}


def _others(room: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"airflow_provider_connect.{room}")}


def _connector(room: str, name: str, contract: type[Any]) -> type[Any]:
    # Every executor task looks its connector up, and a look through all that is installed costs it 25 ms: ours first.
    if name not in _ours(room):
        if (point := _others(room).get(name)) is not None:
            return _only(point.load(), contract, name)
        raise ConfigError(f"no {room[:-1]} is called {name!r}; {nearest(name, names(room))}")
    module = importlib.import_module(f"airflow_provider_connect.{room}.{name}")
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, contract) and value.__module__ == module.__name__
    ]
    return _only(found[0] if len(found) == 1 else None, contract, name)


def _only(found: Any, contract: type[Any], name: str) -> type[Any]:
    if not (isinstance(found, type) and issubclass(found, contract) and getattr(found, "name", None) == name):
        raise ConfigError(f"connector {name!r} must define exactly one {contract.__name__} with name = {name!r}")
    return found
