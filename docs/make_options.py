"""Writes options.md from the connectors' own option descriptions; `make docs` runs it, a test keeps the page true."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from airflow_provider_connect import registry
from airflow_provider_connect.cli.option_table import REQUIRED, options, summary

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
    rows = ["| option | type | default | |", "|---|---|---|---|"]
    for told in options(connector):
        default = told["default"] if told["default"] == REQUIRED else f"`{told['default']}`"
        rows.append(f"| `{told['option']}` | {_marked(told['type'])} | {default} | {told['description']} |")
    return f"### `{connector.__name__}`\n\n{summary(connector)}\n\n" + "\n".join(rows) + "\n"


def _marked(kind: str) -> str:
    """Return a type with its texts as code, for a cell of a table."""
    return re.sub(r'("[^"]*")', r"`\1`", kind).replace(" | ", " \\| ")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
