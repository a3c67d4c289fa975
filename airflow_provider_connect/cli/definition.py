"""All commands and their arguments, for Airflow's command line."""

from __future__ import annotations

from argparse import SUPPRESS
from typing import Any

from airflow.cli.cli_config import (
    ARG_BUNDLE_NAME,
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    GroupCommand,
    lazy_load_command,
)

_ROOM = "airflow_provider_connect.cli"


def _arg(flag: str, **settings: Any) -> Arg:
    return Arg((flag,), **settings)  # type: ignore[no-untyped-call]


_DAG_ID = _arg("dag_id", help="The id of the DAG")
_TASK_ID = _arg("task_id", nargs="?", help="The id of its ConnectOperator task (default: all of the DAG)")
_ONE_TASK_ID = _arg("task_id", nargs="?", help="The id of its ConnectOperator task. Required if the DAG has several")
_FORMER_DAY = _arg("former_day", nargs="?", help=SUPPRESS)
_DAY = (
    _FORMER_DAY,
    _arg("--day", help="YYYY-MM-DD, in the source's zone (default: the task's own days, if one, else yesterday)"),
)
_FOR_DAY = _arg("--day", help="The day for templates: YYYY-MM-DD, in the source's zone (default: yesterday)")
_DAG_OR_SOURCE = _arg("dag_id", nargs="?", help="The id of the DAG, unless --source or --all is given")
_SOURCE = _arg("--source", metavar="CONNECTOR", help="A connector's name instead of a DAG, such as sql or rest")
_OPTIONS = _arg(
    "--options", metavar="JSON_OR_FILE", help="The options of --source: a JSON object, or a YAML or JSON file"
)
_CONN_ID = _arg("--conn-id", help="The Airflow connection, instead of the one in the options")
_SOURCE_ARGUMENTS = (_SOURCE, _OPTIONS, _CONN_ID)
_SAMPLE_ARGUMENTS = (
    _arg("--path", help="rest: the request's path, such as /v1/events"),
    _arg("--openapi", metavar="FILE", help="rest: an OpenAPI 3 document, instead of --conn-id. No request is sent"),
    _arg("--stream", help="mixpanel: export, for events, or engage, for profiles (default: export)"),
    _arg("--day", help="mixpanel: day of the events, YYYY-MM-DD (default: yesterday in UTC)"),
    _arg("--records", type=int, help="mixpanel: number of records to read (default: 1000)"),
    _arg("--columns", type=int, help="mixpanel: largest number of proposed columns (default: 50)"),
)
_DAYS = _arg(
    "--days",
    help="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD with both ends included (default: the task's own days, else yesterday)",
)
_ROWS = _arg("--rows", type=int, default=10, help="Largest number of rows (default: 10)")
_OFFSET_HELP = "The id of the DAG, or the offset's name in 'airflow connect offsets list'"
_OFFSET = (_arg("offset", help=_OFFSET_HELP), _ONE_TASK_ID, ARG_BUNDLE_NAME)
_OFFSETS = (_arg("offset", nargs="?", help=f"{_OFFSET_HELP} (default: all)"), _ONE_TASK_ID, ARG_BUNDLE_NAME)
_SOME_DAYS = _arg(
    "--days", help="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD with both ends included (default: 30 days until yesterday)"
)
_RECORDS = _arg("--records", action="store_true", help="Also print the records, which are your data")
_CHANGED = _arg(
    "--changed", action="store_true", help="List the days that were loaded with options other than the DAG's"
)
_FROM = _arg("--from", required=True, help="'now', or a position in the format of this command's column read_up_to")
_DRY_RUN = _arg("--dry-run", action="store_true", help="Only list the leftovers")
_COLUMN = _arg(
    "--column", default="distinct_id", help="The target's column with the ids of people (default: distinct_id)"
)
_IDS = _arg(
    "--from",
    dest="ids_file",
    default="-",
    metavar="FILE",
    help="A file with the ids, one a line (default: standard input)",
)
_ERASE = _arg("--erase", action="store_true", help="Delete the rows. By default they are only counted")
_ALL = _arg("--all", action="store_true", help="Check every DAG instead of one, such as in CI")
_OFFLINE = _arg("--offline", action="store_true", help="Ask neither source, sink nor Spark, such as in CI")
_POLL = _arg("--poll", action="store_true", help="Also poll the first row of the day. Costs a day's requests")
_PAGE_NAME = _arg("name", nargs="?", help="A connector, such as mixpanel or delta, or a page (default: list the pages)")
_PAGE = _arg("--page", action="store_true", help="Print the page, if a connector has the same name")
_CONNECTOR = _arg("connector", help="Its name, such as mixpanel or delta")
_KIND = _arg("kind", choices=("source", "sink", "rest"), help="A connector, or declarations of REST streams")
_NAME = _arg("name", nargs="?", help="The connector's name: lower-case letters, digits and underscores")
_MANIFEST_ARGUMENTS = (
    _arg(
        "--from",
        dest="manifest",
        metavar="FILE",
        help="rest: an Airbyte low-code manifest, or a dlt rest_api config as YAML or JSON",
    ),
    _arg("--to", metavar="FOLDER", help="rest: folder for the files (default: the connection's id)"),
    _arg(
        "--config", metavar="FILE", help="rest: values of the manifest's config as YAML or JSON. Secrets are not read"
    ),
    _arg("--check", action="store_true", help="rest: request the first two pages of each stream in the folder"),
)
_DAG_ARGUMENTS = (ARG_BUNDLE_NAME, ARG_OUTPUT)


def _command(name: str, function: str, help_text: str, *args: Arg, description: str | None = None) -> ActionCommand:
    """Declare a command. Calling it imports the module of ``function``."""
    call = lazy_load_command(f"{_ROOM}.{function}")
    return ActionCommand(name=name, help=help_text, description=description, func=call, args=(*args, ARG_VERBOSE))


def _tasks_command(name: str, function: str, help_text: str, *args: Arg) -> ActionCommand:
    return _command(name, function, help_text, _DAG_ID, _TASK_ID, *args, *_DAG_ARGUMENTS)


def _task_command(name: str, function: str, help_text: str, *args: Arg) -> ActionCommand:
    return _command(name, function, help_text, _DAG_ID, _ONE_TASK_ID, *args, *_DAG_ARGUMENTS)


def get_commands() -> list[GroupCommand]:
    """Return the command group ``connect``."""
    return [
        GroupCommand(
            name="connect",
            help="Inspect, check and repair the streams of ConnectOperator tasks",
            subcommands=(_OFFSET_COMMANDS, _REJECT_COMMANDS, *_COMMANDS),
        )
    ]


_OFFSET_COMMANDS = GroupCommand(
    name="offsets",
    help="List the settled days of each stream",
    subcommands=(
        _command("list", "offsets.list_offsets", "List the streams with their positions", *_OFFSETS, ARG_OUTPUT),
        _command(
            "show", "offsets.show_offset", "Show one offset with its ranges of settled days", *_OFFSET, ARG_OUTPUT
        ),
        _command(
            "gaps",
            "offsets.list_gaps",
            "List the missing days between the origin and the last settled day",
            *_OFFSETS,
            ARG_OUTPUT,
        ),
        _command(
            "reset",
            "offsets.reset_offset",
            "Delete an offset. The stream's next task recomputes it from the sink's ledger",
            *_OFFSET,
            ARG_YES,
        ),
        _command("export", "offsets.export_offsets", "Print all offsets as JSON for 'airflow variables import'"),
    ),
)

_REJECT_COMMANDS = GroupCommand(
    name="rejects",
    help="Show rejected records, and load their day again",
    subcommands=(
        _tasks_command(
            "list",
            "rejects.list_rejects",
            "List the published days with rejects, and the reasons",
            _SOME_DAYS,
        ),
        _task_command(
            "show",
            "rejects.show_rejects",
            "Show the rejects of one day with position and reason",
            *_DAY,
            _ROWS,
            _RECORDS,
        ),
        _task_command(
            "replay",
            "replay.replay",
            "Load one day again with the DAG's present options, and compare its rejects",
            *_DAY,
        ),
    ),
)

_COMMANDS = (
    _tasks_command("ledger", "offsets.show_day", "Show a day's newest publish in the sink's ledger", *_DAY),
    _tasks_command(
        "plan",
        "plan.show_plan",
        "Estimate requests and hours of days before they are loaded",
        _DAYS,
        _CHANGED,
    ),
    _task_command("accept", "answers.accept", "Accept a task's changed options, so that its next run loads", ARG_YES),
    _task_command(
        "resume",
        "answers.resume",
        "Answer an alarm about lost rows with the position of the next read",
        _FROM,
        ARG_YES,
    ),
    _task_command("run", "run.run_days", "Load days from this machine, without the scheduler", _DAYS),
    _command(
        "check",
        "check.check",
        "Check a pipeline without moving a row",
        _DAG_OR_SOURCE,
        _TASK_ID,
        *_SOURCE_ARGUMENTS,
        _FOR_DAY,
        _ALL,
        _OFFLINE,
        _POLL,
        *_DAG_ARGUMENTS,
        description="Checks the days of the next run, options, connections, the source over the network, its schema, "
        "the sink's rights and schema, its ledger and the quota. Creates nothing in the sink. Exits with 1 if there is "
        "a problem.",
    ),
    _tasks_command("sweep", "sweep.sweep", "Delete or list leftovers of dead attempts in the sink", _DRY_RUN),
    _task_command(
        "rewrite",
        "rewrite.rewrite",
        "Keep the newest row of each key in the sink's table, for a task that merges from now on",
        ARG_YES,
    ),
    _task_command(
        "erase",
        "erase.erase_people",
        "Count people's rows in the sink, or delete them and keep them out of later loads",
        _COLUMN,
        _IDS,
        _ERASE,
    ),
    _command(
        "docs",
        "connectors.describe",
        "Describe a connector's options, or print a page of the documentation",
        _PAGE_NAME,
        _PAGE,
        ARG_OUTPUT,
    ),
    _command(
        "new",
        "connectors.write_new",
        "Write the skeleton of a connector, or REST declarations from a manifest",
        _KIND,
        _NAME,
        *_MANIFEST_ARGUMENTS,
        _CONN_ID,
        _FOR_DAY,
        ARG_OUTPUT,
    ),
    _command(
        "preview",
        "preview.show_rows",
        "Show the first rows of a day as the sink would get them",
        _DAG_OR_SOURCE,
        _ONE_TASK_ID,
        *_SOURCE_ARGUMENTS,
        _FOR_DAY,
        _ROWS,
        *_DAG_ARGUMENTS,
    ),
    _command(
        "propose",
        "propose.propose",
        "Propose options of a source from a sample",
        _CONNECTOR,
        _CONN_ID,
        *_SAMPLE_ARGUMENTS,
    ),
)
