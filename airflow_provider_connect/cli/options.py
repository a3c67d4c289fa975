"""A connector's options, as its fields describe them: for the command line, and for the page of options."""

from __future__ import annotations

from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined


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
