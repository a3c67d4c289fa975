"""Writes options.md from the connectors' own option descriptions; `make docs` runs it, a test keeps the page true."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from airflow_provider_connect import registry

PAGE = Path(__file__).with_name("options.md")
HEAD = """\
# Options

Made from the code by `make docs`: an option is described once, where it is declared.
"""


def page() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for room, find in (("Sources", registry.source_class), ("Sinks", registry.sink_class)):
        parts.append(f"## {room}\n")
        parts += [section(find(name)) for name in registry.names(room.lower())]
    return "\n".join(parts)


def section(connector: type[BaseModel]) -> str:
    """Return one connector's section: its first line, and a table of its options."""
    summary = (inspect.getdoc(connector) or "").splitlines()[0]
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for name, field in connector.model_fields.items():
        default = "required" if field.is_required() else f"`{_default(field)}`"
        rows.append(f"| `{name}` | {_type(field.annotation)} | {default} | {field.description} |")
    return f"### `{connector.__name__}`\n\n{summary}\n\n" + "\n".join(rows) + "\n"


def _default(field: Any) -> Any:
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    return f"{value!s}" if not isinstance(value, str) else f'"{value}"'


def _type(annotation: Any) -> str:
    arguments = get_args(annotation)
    if arguments and all(isinstance(each, str) for each in arguments):
        return " \\| ".join(f'`"{each}"`' for each in arguments)
    if type(None) in arguments:
        rest = tuple(each for each in arguments if each is not type(None))
        return " or ".join(_type(each) for each in rest)
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_type(each) for each in arguments)
    if get_origin(annotation) in (list, dict):
        return f"{get_origin(annotation).__name__} of {', '.join(_type(each) for each in arguments)}"
    return getattr(annotation, "__name__", str(annotation))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
