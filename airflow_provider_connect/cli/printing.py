"""Prints rows as Airflow's own commands do."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from rich.markup import escape

_CELL_CHARACTERS = 60


def show(rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print rows as ``--output`` says."""
    if output in ("json", "yaml"):
        shown = [{name: _whole(value) for name, value in row.items()} for row in rows]
    else:
        shown = [{name: _cell(value, output) for name, value in row.items()} for row in rows]
    AirflowConsole().print_as(data=shown, output=output)


def cut(value: Any) -> str:
    """Return as much of a value as a table has room for."""
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"


def note(text: str) -> None:
    """Say something beside the rows, on stderr, where it does not come between them and a program that reads them."""
    sys.stderr.write(f"{text}\n")


def agreed(question: str) -> bool:
    """Ask a person on the terminal; without one the answer is no."""
    try:
        return input(f"{question} (yes/no) ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _whole(value: Any) -> Any:
    """Return a value as a program reads it: nothing of it is cut."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(name): _whole(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return str(value)


def _cell(value: Any, output: str) -> str:
    """Return a value as a person reads it in a table: a time without the fraction of its second."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={each}" for name, each in value.items())
    elif isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    elif isinstance(value, dt.datetime):
        value = value.isoformat(sep=" ", timespec="seconds")
    # A value may hold what a terminal or rich would take for a command.
    text = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(value))
    return escape(text) if output == "table" else text
