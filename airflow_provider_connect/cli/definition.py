"""Every command with its arguments, as Airflow's own command line declares them. Read with each call of ``airflow``."""

from __future__ import annotations

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
_TASK_ID = _arg("task_id", nargs="?", help="The id of its ConnectOperator task; every one of the DAG by default")
_ONE_TASK_ID = _arg("task_id", nargs="?", help="The id of its ConnectOperator task; needed if the DAG has several")
_DAY = _arg("day", help="YYYY-MM-DD, in the source's zone")
_FOR_DAY = _arg(
    "--day", help="The day that templates are rendered for: YYYY-MM-DD, in the source's zone (default: yesterday)"
)
_DAG_OR_SOURCE = _arg("dag_id", nargs="?", help="The id of the DAG; or else --source")
_SOURCE = _arg("--source", metavar="CONNECTOR", help="A connector's name in place of a DAG, such as sql or rest")
_OPTIONS = _arg(
    "--options", metavar="JSON_OR_FILE", help="The options of --source: a JSON object, or a file, YAML or JSON"
)
_CONN_ID = _arg("--conn-id", help="The Airflow connection, in place of the options' own")
_LONE_SOURCE = (_SOURCE, _OPTIONS, _CONN_ID)
_OF_SAMPLE = (
    _arg("--path", help="rest: the request's path, such as /v1/events"),
    _arg("--openapi", metavar="FILE", help="rest: an OpenAPI 3 document, in place of --conn-id; nothing is requested"),
    _arg("--stream", help="mixpanel: export, for events, or engage, for profiles (default: export)"),
    _arg("--day", help="mixpanel: day of the events, YYYY-MM-DD (default: yesterday in UTC)"),
    _arg("--records", type=int, help="mixpanel: how many records to look at (default: 1000)"),
    _arg("--columns", type=int, help="mixpanel: how many columns to propose at most (default: 50)"),
)
_OF_DAY = _arg("--day", required=True, help="YYYY-MM-DD, in the source's zone")
_DAYS = _arg("--days", required=True, help="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD with both ends included")
_RUN_DAYS = _arg(
    "--days",
    help="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD with both ends included (default: the task's own days, else yesterday)",
)
_ROWS = _arg("--rows", type=int, default=10, help="How many rows at most (default: 10)")
_OFFSET = _arg("offset", help="The offset as 'airflow connect offsets list' names it")
_OFFSETS = _arg("offset", nargs="?", help="The offset as 'airflow connect offsets list' names it; all by default")
_SOME_DAYS = _arg(
    "--days", help="YYYY-MM-DD, or YYYY-MM-DD..YYYY-MM-DD with both ends included (default: 30 days until yesterday)"
)
_RECORDS = _arg("--records", action="store_true", help="Print the records themselves, which are your data")
_CHANGED = _arg(
    "--changed", action="store_true", help="List the days that were loaded with other options than the DAG's"
)
_FROM = _arg("--from", required=True, help="'now', or a position as this command prints it (read_up_to)")
_DRY_RUN = _arg("--dry-run", action="store_true", help="List what would be deleted, and delete nothing")
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
_ERASE = _arg("--erase", action="store_true", help="Delete the rows. Without this option they are only counted")
_CONNECTOR = _arg("connector", help="Its name, such as mixpanel or delta")
_KIND = _arg("kind", choices=("source", "sink"), help="What to begin")
_NAME = _arg("name", help="Its name: small letters, digits and underscores")
_OF_A_DAG = (ARG_BUNDLE_NAME, ARG_OUTPUT, ARG_VERBOSE)


def get_commands() -> list[GroupCommand]:
    """Return the group ``connect``."""
    return [
        GroupCommand(
            name="connect",
            help="Look at, check and mend what ConnectOperator tasks load",
            subcommands=(_OFFSET_COMMANDS, _REJECT_COMMANDS, *_COMMANDS),
        )
    ]


_OFFSET_COMMANDS = GroupCommand(
    name="offsets",
    help="Which days of each stream are done",
    subcommands=(
        ActionCommand(
            name="list",
            help="List the streams with their positions",
            func=lazy_load_command(f"{_ROOM}.offsets.list_offsets"),
            args=(ARG_OUTPUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="show",
            help="Show one offset with its ranges of done days",
            func=lazy_load_command(f"{_ROOM}.offsets.show_offset"),
            args=(_OFFSET, ARG_OUTPUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="gaps",
            help="List the days that are missing between the first wanted day and the last done day",
            func=lazy_load_command(f"{_ROOM}.offsets.list_gaps"),
            args=(_OFFSETS, ARG_OUTPUT, ARG_VERBOSE),
        ),
        ActionCommand(
            name="reset",
            help="Delete an offset; the stream's next task makes it anew from the sink's ledger",
            func=lazy_load_command(f"{_ROOM}.offsets.reset_offset"),
            args=(_OFFSET, ARG_YES, ARG_VERBOSE),
        ),
        ActionCommand(
            name="export",
            help="Print all offsets as JSON that 'airflow variables import' reads",
            func=lazy_load_command(f"{_ROOM}.offsets.export_offsets"),
            args=(ARG_VERBOSE,),
        ),
    ),
)

_REJECT_COMMANDS = GroupCommand(
    name="rejects",
    help="Records that were set aside: look at them, and load their day again",
    subcommands=(
        ActionCommand(
            name="list",
            help="List the published days of which records were set aside, with the reasons",
            func=lazy_load_command(f"{_ROOM}.rejects.list_rejects"),
            args=(_DAG_ID, _TASK_ID, _SOME_DAYS, *_OF_A_DAG),
        ),
        ActionCommand(
            name="show",
            help="Show the records of one day: where they were, and what is wrong with them",
            func=lazy_load_command(f"{_ROOM}.rejects.show_rejects"),
            args=(_DAG_ID, _ONE_TASK_ID, _DAY, _ROWS, _RECORDS, *_OF_A_DAG),
        ),
        ActionCommand(
            name="replay",
            help="Load one day again with the DAG as it is now, and say what is still set aside",
            func=lazy_load_command(f"{_ROOM}.replay.replay"),
            args=(_DAG_ID, _ONE_TASK_ID, _DAY, *_OF_A_DAG),
        ),
    ),
)

_COMMANDS = (
    ActionCommand(
        name="ledger",
        help="Show what the sink's own ledger says of a day",
        func=lazy_load_command(f"{_ROOM}.offsets.show_day"),
        args=(_DAG_ID, _TASK_ID, _DAY, *_OF_A_DAG),
    ),
    ActionCommand(
        name="plan",
        help="Say what days cost before they are loaded: requests, and how long they take",
        func=lazy_load_command(f"{_ROOM}.plan.show_plan"),
        args=(_DAG_ID, _TASK_ID, _DAYS, _CHANGED, *_OF_A_DAG),
    ),
    ActionCommand(
        name="accept",
        help="Accept a task's changed options, so that its next run loads",
        func=lazy_load_command(f"{_ROOM}.answers.accept"),
        args=(_DAG_ID, _ONE_TASK_ID, ARG_YES, *_OF_A_DAG),
    ),
    ActionCommand(
        name="resume",
        help="Answer an alarm about lost rows with the position where the stream goes on",
        func=lazy_load_command(f"{_ROOM}.answers.resume"),
        args=(_DAG_ID, _ONE_TASK_ID, _FROM, ARG_YES, *_OF_A_DAG),
    ),
    ActionCommand(
        name="run",
        help="Move days from here, without the scheduler, as a task would",
        func=lazy_load_command(f"{_ROOM}.run.run_days"),
        args=(_DAG_ID, _ONE_TASK_ID, _RUN_DAYS, *_OF_A_DAG),
    ),
    ActionCommand(
        name="check",
        help="Check a pipeline without moving a row",
        description="Checks options, connections, the source over the network, its schema, the sink's rights and "
        "schema, its ledger and the quota. Makes nothing in the sink. Exits with 1 if there is a problem.",
        func=lazy_load_command(f"{_ROOM}.check.check"),
        args=(_DAG_OR_SOURCE, _TASK_ID, *_LONE_SOURCE, _FOR_DAY, *_OF_A_DAG),
    ),
    ActionCommand(
        name="sweep",
        help="Delete what dead attempts left in the sink, or list it",
        func=lazy_load_command(f"{_ROOM}.sweep.sweep"),
        args=(_DAG_ID, _TASK_ID, _DRY_RUN, *_OF_A_DAG),
    ),
    ActionCommand(
        name="erase",
        help="Count people's rows in the sink, or delete them and keep them out of later loads",
        func=lazy_load_command(f"{_ROOM}.erase.erase_people"),
        args=(_DAG_ID, _ONE_TASK_ID, _COLUMN, _IDS, _ERASE, *_OF_A_DAG),
    ),
    ActionCommand(
        name="docs",
        help="Describe a connector's options",
        func=lazy_load_command(f"{_ROOM}.connectors.describe"),
        args=(_CONNECTOR, ARG_OUTPUT, ARG_VERBOSE),
    ),
    ActionCommand(
        name="new",
        help="Write the beginning of a connector, with a test",
        func=lazy_load_command(f"{_ROOM}.connectors.write_connector"),
        args=(_KIND, _NAME, ARG_VERBOSE),
    ),
    ActionCommand(
        name="preview",
        help="Show the first rows of a day as the sink would get them",
        func=lazy_load_command(f"{_ROOM}.preview.show_rows"),
        args=(_DAG_OR_SOURCE, _ONE_TASK_ID, *_LONE_SOURCE, _OF_DAY, _ROWS, *_OF_A_DAG),
    ),
    ActionCommand(
        name="propose",
        help="Propose options of a source from a sample of its answers",
        func=lazy_load_command(f"{_ROOM}.propose.propose"),
        args=(_CONNECTOR, _CONN_ID, *_OF_SAMPLE, ARG_VERBOSE),
    ),
)
