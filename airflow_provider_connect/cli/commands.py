"""Which commands there are, with their arguments: Airflow's CLI reads this with every call, so it imports nothing else.

A command's function lies in the module of its name. What it prints and how it ends is :mod:`.reporting`'s.
"""

from __future__ import annotations

from typing import Any

from airflow.cli.cli_config import (
    ARG_BUNDLE_NAME,
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
)


def _argument(*flags: str, **how: Any) -> Arg:
    return Arg(flags, **how)  # type: ignore[no-untyped-call]


_DAG = _argument("dag_id", help="The DAG")
_TASK = _argument("task_id", nargs="?", help="One of its ConnectOperator tasks; by default all of them")
_DAYS = _argument("--days", required=True, metavar="DAYS", help="A day, or FIRST..LAST with both ends included")
_DAY = _argument("--day", metavar="YYYY-MM-DD", help="The day; yesterday in the source's zone by default")
_ROWS = _argument("--rows", type=int, default=10, metavar="N", help="How many rows to show (default: 10)")
_FILE = _argument("file", nargs="?", default="-", help="Where to write; - is standard output (default)")
_CONNECTOR = _argument("connector", help="A source or sink, such as mixpanel or delta")
_PIPELINE = (_DAG, _TASK, ARG_BUNDLE_NAME, ARG_OUTPUT, ARG_VERBOSE)

EXITS = """\
exit codes: 0 all is well; 1 something was found; 2 the command was wrong; 65 the data is bad; 70 unexpected;
75 the same may succeed later; 78 a person must act"""


def get_commands() -> list[CLICommand]:
    """Return the group ``connect``, for the provider's ``cli`` section."""
    return [
        GroupCommand(
            name="connect",
            help="Look at, check and mend what ConnectOperator loads",
            description="Look at, check and mend what ConnectOperator loads",
            epilog=EXITS,
            subcommands=(
                _command("check", "Check options, connections, rights and columns; no row is moved", *_PIPELINE),
                _command("preview", "Show the first rows of a day as the source gives them", *_PIPELINE, _DAY, _ROWS),
                _command("run", "Move days from here, without the scheduler", *_PIPELINE, _DAYS),
                _command("plan", "Say what days would cost: requests, hours, rows", *_PIPELINE, _DAYS),
                _command("ledger", "Ask the sink what it has of days: generation, rows, run, link", *_PIPELINE, _DAYS),
                _command("docs", "Show the options of a source or sink", _CONNECTOR, ARG_OUTPUT, ARG_VERBOSE),
                GroupCommand(
                    name="offsets",
                    help="Which days of a stream are done",
                    subcommands=(
                        _command("offsets.list", "Every stream that has an offset", ARG_OUTPUT, ARG_VERBOSE),
                        _command("offsets.show", "The done days of a DAG's streams", *_PIPELINE),
                        _command("offsets.gaps", "Days that are missing before the last done one", *_PIPELINE),
                        _command("offsets.reset", "Delete an offset; the next task makes it anew", *_PIPELINE, ARG_YES),
                        _command("offsets.export", "Write every offset as JSON", _FILE, ARG_VERBOSE),
                    ),
                ),
            ),
        )
    ]  # fmt: skip


def _command(name: str, told: str, *arguments: Arg) -> ActionCommand:
    """Return a command; its function is called as the last part of its name, with ``_command`` behind it."""
    module, _, last = name.rpartition(".")
    path = f"airflow_provider_connect.cli.{module or last}.{last}_command"
    return ActionCommand(name=last, help=told, func=lazy_load_command(path), args=arguments)
