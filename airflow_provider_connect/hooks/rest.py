"""Proposes what to declare of a REST source, and shows its first rows, on the command line. Nothing is loaded.

::

    python -m airflow_provider_connect.hooks.rest propose /v1/events --conn-id shop > shop_events.yaml
    python -m airflow_provider_connect.hooks.rest propose /v1/events --openapi openapi.yaml > shop_events.yaml
    python -m airflow_provider_connect.hooks.rest preview shop_events.yaml --day 2026-03-01
    python -m airflow_provider_connect.hooks.rest preview shop_events.yaml --day 2026-03-01 --conn-id shop --rows 5

``propose`` prints a declaration whose guesses are comments, from the API's own description, or from one answer of it.
``preview`` prints a JSON object for each row. Both run where Airflow runs, or anywhere with the connection in the
environment as ``AIRFLOW_CONN_<ID>``. Their requests are not counted with those of the tasks.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.hooks.credentials import resolve
from airflow_provider_connect.sources._rest.previewing import first_rows
from airflow_provider_connect.sources._rest.proposing.proposal import proposed_by_answer, proposed_by_document
from airflow_provider_connect.sources.rest import RestSource


def main(arguments: Sequence[str]) -> int:
    """Print the rows; return the exit code, that of the error if there is one."""
    parser = argparse.ArgumentParser(prog="python -m airflow_provider_connect.hooks.rest")
    commands = parser.add_subparsers(dest="command", required=True)
    preview = commands.add_parser("preview", description="Print the first rows of a day, one JSON object a line.")
    preview.add_argument("declaration", type=Path, help="the file, YAML or JSON")
    preview.add_argument("--day", type=dt.date.fromisoformat, required=True, help="YYYY-MM-DD, in the source's zone")
    preview.add_argument("--conn-id", help="the Airflow connection, in place of the file's own")
    preview.add_argument("--rows", type=int, default=20, help="how many rows at most (default: 20)")
    propose = commands.add_parser("propose", description="Print a declaration, its guesses as comments.")
    propose.add_argument("path", help="of the request, such as /v1/events")
    known = propose.add_mutually_exclusive_group(required=True)
    known.add_argument("--conn-id", help="the Airflow connection, of which one answer is asked for")
    known.add_argument("--openapi", type=Path, help="an OpenAPI 3 document, YAML or JSON; nothing is asked for")
    asked = parser.parse_args(arguments)
    try:
        if asked.command == "propose":
            sys.stdout.write(_proposed(asked.path, asked.openapi, asked.conn_id))
            return 0
        options = {} if asked.conn_id is None else {"conn_id": asked.conn_id}
        source = RestSource.from_file(asked.declaration.absolute(), **options)
        rows = first_rows(source, resolve(source.conn_id), asked.day, asked.rows)
    except ConnectError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    for row in rows:
        sys.stdout.write(json.dumps(row, default=str, ensure_ascii=False) + "\n")
    return 0


def _proposed(path: str, document: Path | None, conn_id: str | None) -> str:
    if document is not None:
        return proposed_by_document(path, document)
    assert conn_id is not None, "the parser wants one of them"
    return proposed_by_answer(path, resolve(conn_id))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
