"""What a command prints, and how it ends: tables as Airflow's own, errors as one text, exit codes by what to do."""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_connect.errors import ConnectError, Failure

FOUND = 1
"""The exit code of a command that has found what it looked for: a gap, a problem."""

_FOR_PROGRAMS = ("json", "yaml")
_Command = Callable[[argparse.Namespace], int | None]


def command(*, is_quiet: bool = True) -> Callable[[_Command], Callable[[argparse.Namespace], None]]:
    """Make a function a command: it returns its exit code, and may raise what this package raises.

    An error that is not ours is told by type and place alone, as its text may hold a credential; ``--verbose`` shows
    it whole.

    :param is_quiet: whether what is logged stays away without ``--verbose``. It always does where the output is JSON or
        YAML, as Airflow logs to the same place.
    """

    def made(function: _Command) -> Callable[[argparse.Namespace], None]:
        @functools.wraps(function)
        def wrapped(asked: argparse.Namespace) -> None:
            codes: list[int | None] = []

            @providers_configuration_loaded
            def run(asked: argparse.Namespace) -> None:
                codes.append(function(asked))

            try:
                (suppress_logs_and_warning(run) if is_quiet or _is_read_by_programs(asked) else run)(asked)
            except ConnectError as error:
                fail(str(error), error.exit_code)
            except Exception as error:
                if asked.verbose:
                    raise
                fail(f"{Failure.of(error).message}; --verbose shows all of it", ConnectError.exit_code)
            if codes and codes[0]:
                sys.exit(codes[0])

        return wrapped

    return made


def _is_read_by_programs(asked: argparse.Namespace) -> bool:
    return getattr(asked, "output", None) in _FOR_PROGRAMS


def fail(text: str, code: int) -> None:
    """End the command with an error."""
    print(text, file=sys.stderr)
    sys.exit(code)


def note(text: str) -> None:
    """Tell a person something that is not the command's output."""
    print(text, file=sys.stderr)


def show(rows: Sequence[dict[str, Any]], output: str, none: str) -> None:
    """Print rows in the way that was asked for.

    :param none: what to say to a person if there are none.
    """
    if not rows and output not in _FOR_PROGRAMS:
        note(none)
        return
    console = AirflowConsole()
    if output in _FOR_PROGRAMS:  # Airflow's own would write every number as a text
        written: Any = [{name: _plain(value) for name, value in row.items()} for row in rows]
        (console.print_as_json if output == "json" else console.print_as_yaml)(written)
    else:
        console.print_as(
            [{name: "" if value is None else value for name, value in row.items()} for row in rows], output
        )


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: what it has no form for becomes text, bytes in hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
