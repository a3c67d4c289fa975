"""Values and names as GoogleSQL text; only here does a value become part of a query.

Values are literals rather than parameters: so the text in a job's history shows all that the job did, and a person can
run it again.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/lexical (2026-11).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from airflow_provider_connect.errors import ConfigError

_ESCAPES = {ord(c): f"\\{letter}" for c, letter in zip("\\'\n\r\t\a\b\f\v", "\\'nrtabfv", strict=True)}


def literal(value: str | int | dt.date | None, type_name: str = "STRING") -> str:
    """Return a value as a literal: text, whole numbers, dates and NULL (which is cast to ``type_name``).

    :raises ConfigError: the text holds NUL or half of a surrogate pair, which no query may hold.
    """
    if value is None:
        return f"CAST(NULL AS {type_name})"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        return str(int(value))
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigError(f"a text of {len(value)} characters holds NUL or a lone surrogate: BigQuery takes neither")
    return f"'{value.translate(_ESCAPES)}'"


def texts(values: Iterable[str]) -> str:
    """Return strings as an array literal; also an empty one has its type."""
    return f"CAST([{', '.join(map(literal, values))}] AS ARRAY<STRING>)"


def timestamp(value: dt.datetime | None) -> str:
    """Return an instant as a literal."""
    if value is None:
        return literal(None, "TIMESTAMP")
    return f"TIMESTAMP '{value.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"


def quoted(name: str) -> str:
    """Return a column's name in backticks.

    :raises ConfigError: BigQuery allows no such column name.
    """
    if not name or any(character in "`\\" or character < " " for character in name):
        raise ConfigError(f"{name!r} is not a column name of BigQuery")
    return f"`{name}`"


def names(columns: Iterable[str], alias: str = "") -> str:
    """Return column names, separated by commas, each after ``alias`` if one is given."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(column) for column in columns)


def any_partition(column: str | None, alias: str = "") -> str:
    """Return a condition that always holds, for tables that want one on their partition column.

    ``require_partition_filter`` is content with any comparison of the partition column; dbt does the same.
    """
    if column is None:
        return "TRUE"
    field = names([column], alias)
    return f"({field} IS NULL OR {field} IS NOT NULL)"
