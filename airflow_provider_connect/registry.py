"""Finds a connector by its name: the name of its file in ``sources/`` or ``sinks/``, or an entry point's."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from importlib.metadata import entry_points
from typing import Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Sink
from airflow_provider_connect.source import Source


def names(room: str) -> list[str]:
    """Return the names of all connectors in ``room`` (``sources`` or ``sinks``), ours and others'."""
    package = importlib.import_module(f"airflow_provider_connect.{room}")
    ours = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}
    others = {point.name for point in entry_points(group=f"airflow_provider_connect.{room}")}
    return sorted(ours | others)


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


def _connector(room: str, name: str, contract: type[Any]) -> type[Any]:
    known = names(room)
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(known)}"
        raise ConfigError(f"no {room[:-1]} is called {name!r}; {hint}")
    for point in entry_points(group=f"airflow_provider_connect.{room}"):
        if point.name == name:
            return _only(point.load(), contract, name)
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
