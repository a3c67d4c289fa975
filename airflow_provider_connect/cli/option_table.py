"""A connector's options as a table, from its code: for the command ``docs`` and for docs/options.md."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

REQUIRED = "required"


def summary(connector: type[BaseModel]) -> str:
    """Return the first line of what a connector says of itself."""
    return (inspect.getdoc(connector) or "").splitlines()[0]


def options(connector: type[BaseModel]) -> list[dict[str, Any]]:
    """Return a connector's options: name, type, default and description."""
    return [
        {
            "option": name,
            "type": kind(field.annotation),
            "default": REQUIRED if field.is_required() else default(field),
            "description": field.description,
        }
        for name, field in connector.model_fields.items()
    ]


def default(field: Any) -> str:
    """Return an option's default as it is written in Python."""
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    return f"{value!s}" if not isinstance(value, str) else f'"{value}"'


def kind(annotation: Any) -> str:
    """Return an option's type in words."""
    arguments = get_args(annotation)
    if arguments and all(isinstance(each, str) for each in arguments):
        return " | ".join(f'"{each}"' for each in arguments)
    if type(None) in arguments:
        rest = tuple(each for each in arguments if each is not type(None))
        return " or ".join(kind(each) for each in rest)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(kind(each) for each in arguments)
    if get_origin(annotation) in (list, dict):
        return f"{get_origin(annotation).__name__} of {', '.join(kind(each) for each in arguments)}"
    return getattr(annotation, "__name__", str(annotation))
