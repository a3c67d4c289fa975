"""Writes options.md from the connectors' own option descriptions; `make docs` runs it, a test keeps the page true."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pydantic import BaseModel

from airflow_provider_connect import registry
from airflow_provider_connect.cli.options import options_of
from airflow_provider_connect.shapes import Condition
from airflow_provider_connect.shapes.chain import SHAPES

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
    parts.append("## Shapes\n\nWith examples: [shapes](shapes.md).\n")
    parts += [section(shape) for shape in (*SHAPES.values(), Condition)]
    return "\n".join(parts)


def section(connector: type[BaseModel]) -> str:
    """Return one connector's section: its first line, and a table of its options."""
    summary = (inspect.getdoc(connector) or "").splitlines()[0]
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for option in options_of(connector):
        default = "required" if option.default is None else f"`{option.default}`"
        rows.append(f"| `{option.name}` | {_cell(option.type)} | {default} | {option.description} |")
    return f"### `{connector.__name__}`\n\n{summary}\n\n" + "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    """Return a type as a table's cell has it: quoted texts as code, and no bar that would end the cell."""
    return re.sub('"[^"]*"', r"`\g<0>`", text).replace(" | ", " \\| ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
