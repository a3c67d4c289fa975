"""``airflow connect docs``: a connector's options, from the code."""

from __future__ import annotations

import inspect
from argparse import Namespace

from airflow_provider_connect import registry
from airflow_provider_connect.cli.ending import command
from airflow_provider_connect.cli.options import options_of
from airflow_provider_connect.cli.printing import note, show
from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError

_ROOMS = {"sources": registry.source_class, "sinks": registry.sink_class}


@command
def describe(args: Namespace) -> None:
    """Print the options of each connector of a name."""
    known = {room: registry.names(room) for room in _ROOMS}
    found = [find(args.connector) for room, find in _ROOMS.items() if args.connector in known[room]]
    if not found:
        hint = nearest(args.connector, {name for names in known.values() for name in names})
        raise ConfigError(f"no connector is called {args.connector!r}: {hint}")
    rows = []
    for connector in found:
        note(f"{connector.__name__}: {(inspect.getdoc(connector) or '').splitlines()[0]}")
        rows += [
            {
                "connector": connector.__name__,
                "option": option.name,
                "type": option.type,
                "default": "required" if option.default is None else option.default,
                "description": option.description,
            }
            for option in options_of(connector)
        ]
    show(rows, args.output)
