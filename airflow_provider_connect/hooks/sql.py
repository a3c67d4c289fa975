"""Checks a source of a database before its first run, on the command line. Nothing is loaded.

::

    python -m airflow_provider_connect.hooks.sql check '{"conn_id": "shop_db", "table": "orders",
        "day_column": "created_at"}'

The text is the source's options, as JSON. It runs where Airflow runs, or anywhere with the connection in the
environment as ``AIRFLOW_CONN_<ID>``. In Python: ``print(check(SqlSource(…)))``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.hooks.credentials import resolve
from airflow_provider_connect.sources.sql import SqlSource

if TYPE_CHECKING:
    from airflow_provider_connect.sources._sql.preflight import Report


def check(source: SqlSource) -> Report:
    """Check a source and its connection: rights, columns, key, indexes, clock and zone.

    :raises ConfigError: if Airflow has no such connection.
    """
    from airflow_provider_connect.sources._sql import preflight  # noqa: PLC0415  # too heavy to list connection types

    return preflight.check(source, resolve(source.conn_id))


def main(arguments: Sequence[str]) -> int:
    """Print the report; return 0 if nothing stands in the way, else a ConfigError's exit code."""
    parser = argparse.ArgumentParser(prog="python -m airflow_provider_connect.hooks.sql")
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check", description="Check a source against its database.")
    checking.add_argument("options", help='as JSON: {"conn_id": "shop_db", "table": "orders", "snapshot": "replace"}')
    asked = parser.parse_args(arguments)
    try:
        report = check(SqlSource.of(_options(asked.options)))
    except ConnectError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{report}\n")
    return 0 if report.passed else ConfigError.exit_code


def _options(text: str) -> dict[str, object]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise ConfigError('the options must be a JSON object, such as {"conn_id": "shop_db", "table": "orders"}')
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
