"""``airflow connect docs``: a connector's options, from the code."""

from __future__ import annotations

import inspect
from argparse import Namespace
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from airflow_provider_connect import registry
from airflow_provider_connect.cli.terminal import command, note, show
from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError


@dataclass(frozen=True)
class Option:
    """One option.

    :param type: in words; texts that it may be are quoted, with ``|`` between them.
    :param default: as Python has it; None if the option is required.
    """

    name: str
    type: str
    default: str | None
    description: str


def options_of(connector: type[BaseModel]) -> list[Option]:
    """Return a connector's options in the order of their declaration."""
    return [
        Option(
            name=name,
            type=_type(field.annotation),
            default=None if field.is_required() else _default(field),
            description=field.description or "",
        )
        for name, field in connector.model_fields.items()
    ]


def _default(field: Any) -> str:
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    arguments = get_args(annotation)
    if arguments and all(isinstance(each, str) for each in arguments):
        return " | ".join(f'"{each}"' for each in arguments)
    if type(None) in arguments or get_origin(annotation) in (Union, UnionType):
        return " or ".join(_type(each) for each in arguments if each is not type(None))
    if get_origin(annotation) in (list, dict):
        return f"{get_origin(annotation).__name__} of {', '.join(_type(each) for each in arguments)}"
    return getattr(annotation, "__name__", str(annotation))


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
