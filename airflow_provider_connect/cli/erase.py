"""``airflow connect erase``: counts or deletes people's rows in a sink.

Ids come from a file or the standard input.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.tasks import connect_task
from airflow_provider_connect.cli.terminal import command, print_note, print_rows
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.operators.erase import erase
from airflow_provider_connect.stage.erase_list import Erasure

STANDARD_INPUT = "-"


@partial(command, changes=True)
def erase_people(args: Namespace) -> None:
    """Print the number of found or deleted rows and days, and where such rows may remain."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.render(task.parse_day(None))
    connections = pipeline.resolve_sink_connections()
    connections |= {conn_id: credentials.resolve_connection(conn_id) for conn_id in pipeline.chain.conn_ids}
    erasure = erase(
        pipeline.source,
        pipeline.sink,
        read_ids(args.ids_file),
        column=args.column,
        shape=pipeline.chain.shapes,
        mode="erase" if args.erase else "count",
        staging=pipeline.staging,
        connections=connections,
    )
    print_rows([_line(task.name, erasure, args.output)], args.output)
    for copy in erasure.copies:
        print_note(f"{task.name}: not searched: {copy}")
    if not args.erase:
        print_note(f"{task.name}: nothing was changed. --erase deletes these rows and keeps them out of later loads")


def read_ids(file: str) -> list[str]:
    """Read ids, one a line. Skips empty lines.

    :param file: path, or ``-`` for the standard input.
    :raises ConfigError: unreadable, or not UTF-8.
    """
    if file == STANDARD_INPUT:
        if sys.stdin.isatty():
            print_note("Type the ids, one a line, and end with Ctrl-D")
        return _ids(sys.stdin.read())
    try:
        return _ids(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--from {file!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--from {file!r} is not UTF-8 text") from None


def _ids(text: str) -> list[str]:
    # Not splitlines(): an id may contain U+2028 or similar characters, and its parts would be other people.
    lines = (line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n"))
    return [line for line in lines if line.strip()]


def _line(name: str, erasure: Erasure, output: str) -> dict[str, Any]:
    line: dict[str, Any] = {
        "task": name,
        "target": erasure.target,
        "column": erasure.column,
        "values": erasure.values,
        "rows": sum(erasure.rows.values()),
        "days": len(erasure.rows),
        "erase_list": erasure.version,
    }
    if output in ("json", "yaml"):
        line |= {"rows_by_day": {str(day): rows for day, rows in erasure.rows.items()}, "copies": erasure.copies}
    return line
