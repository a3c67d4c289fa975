"""Output of commands: rows in Airflow's formats, exit codes, and errors on stderr.

====  =============================================================
code  meaning
====  =============================================================
0     success
1     the command found a problem, or a prompt was answered no
2     wrong arguments (argparse)
65    the data is bad (:class:`.DataError`)
70    an unexpected error
75    a later try may succeed (:class:`.RetriableError`)
78    a person must act: options, connections, rights (:class:`.ConfigError`)
130   interrupted
====  =============================================================
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from airflow.configuration import AIRFLOW_HOME
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded
from rich.markup import escape
from sqlalchemy.exc import DBAPIError

from airflow_provider_connect.errors import ConfigError, ConnectError, Failure

_CELL_CHARACTERS = 60
_MIN_WRAPPED_CHARACTERS = 36


def print_rows(rows: Sequence[Mapping[str, Any]], output: str, *, empty: str = "no rows") -> None:
    """Print rows in the format of ``--output``.

    :param empty: text on stderr if there are no rows.
    """
    if output in ("json", "yaml"):
        AirflowConsole().print_as(
            data=[{name: _full_value(value) for name, value in row.items()} for row in rows], output=output
        )
        return
    if not rows:
        if empty:
            print_note(empty)
        return
    cells = [{name: _cell(value, output) for name, value in row.items()} for row in rows]
    if output != "table" or _fits_terminal(cells):
        AirflowConsole().print_as(data=cells, output=output)
        return
    for row in cells:
        AirflowConsole().print_as(data=[{"field": name, "value": value} for name, value in row.items()], output=output)


def _fits_terminal(cells: Sequence[Mapping[str, str]]) -> bool:
    columns = shutil.get_terminal_size().columns
    *_, last_column = cells[0]
    others = [{name: text for name, text in row.items() if name != last_column} for row in cells]
    if _table_width(cells) <= columns:
        return True
    return len(cells[0]) > 1 and _table_width(others) + _MIN_WRAPPED_CHARACTERS <= columns


def _table_width(cells: Sequence[Mapping[str, str]]) -> int:
    return 1 + sum(3 + max(len(name), *(len(row[name]) for row in cells)) for name in cells[0])


def print_fields(fields: Mapping[str, Any], output: str) -> None:
    """Print one object: in a table a line for each field."""
    lines = [{"field": name, "value": value} for name, value in fields.items()]
    if output != "table":
        print_rows([fields] if output in ("json", "yaml") else lines, output)
        return
    cells = [{"field": line["field"], "value": _cell(line["value"], output)} for line in lines]
    AirflowConsole().print_as(data=cells, output=output)  # never wider than a record that print_rows prints alone


def shorten(value: Any) -> str:
    """Shorten a value's text to the width of a table cell."""
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[: _CELL_CHARACTERS - 1]}…"


def print_note(text: str) -> None:
    """Print a line on stderr."""
    sys.stderr.write(f"{text}\n")


def ask_consent(question: str) -> bool:
    """Ask a yes/no question and return True for yes. Without a terminal the answer is no."""
    try:
        return input(f"{question} (yes/no) ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _full_value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(name): _full_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_full_value(item) for item in value]
    return str(value)


def _cell(value: Any, output: str) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    elif isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    elif isinstance(value, dt.datetime):
        value = value.isoformat(sep=" ", timespec="seconds")
    # A terminal or rich could interpret parts of a value as commands.
    text = "".join(item if item.isprintable() else ascii(item)[1:-1] for item in str(value))
    return escape(text) if output == "table" else text


EXIT_PROBLEMS = 1
_INTERRUPTED = 130

Command = Callable[[Any], int | None]


def command(function: Command, *, changes: bool = False) -> Callable[[Any], None]:
    """Turn a function of parsed arguments into a command. The function returns an exit code, or None for 0.

    :param changes: True for a command that changes something, which Airflow's audit log records.
    """

    @functools.wraps(function)
    def run(args: Any) -> None:
        sys.exit(_exit_code(function, args))

    quiet = providers_configuration_loaded(suppress_logs_and_warning(run))
    audited: Any = action_cli
    return audited(check_db=False)(quiet) if changes else quiet


def _exit_code(function: Command, args: Any) -> int:
    try:
        code = function(args) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # "… | head" has closed the pipe. The interpreter must not flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except ConnectError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # a foreign error's text may contain a secret
        if _has_no_tables(error):
            sys.stderr.write(
                f"ConfigError: Airflow's database has no tables. Check AIRFLOW_HOME, which is {AIRFLOW_HOME}, or run "
                "'airflow db migrate'\n"
            )
            return ConfigError.exit_code
        sys.stderr.write(f"{Failure.from_error(error).message}\n")
        return ConnectError.exit_code
    return code


def _has_no_tables(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and _NO_TABLE.search(str(error.orig)) is not None


_NO_TABLE = re.compile(r"no such table|relation .* does not exist|Table .* doesn't exist")
