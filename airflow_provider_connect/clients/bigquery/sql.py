"""Renders tables, values and names as GoogleSQL text.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/lexical (2026-11).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider_connect.errors import ConfigError

# https://cloud.google.com/bigquery/docs/datasets#dataset-naming and /tables#table_naming, 2026-11. A backtick could end
# the quoting in SQL. Other characters that BigQuery allows in a table's name are left out on purpose.
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{3,}")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,1024}")
_TABLE = re.compile(r"[\w-]{1,1024}")
MAX_TABLE_BYTES = 1024  # in UTF-8
MAX_TARGET_BYTES = 750
"""Longest name of a target, in bytes of UTF-8."""
_ESCAPES = {ord(c): f"\\{letter}" for c, letter in zip("\\'\n\r\t\a\b\f\v", "\\'nrtabfv", strict=True)}


@dataclass(frozen=True)
class TableRef:
    """Project, dataset and table, each safe inside SQL.

    :raises ConfigError: a wrong name.
    """

    project: str
    dataset: str
    table: str

    def __post_init__(self) -> None:
        for part, name, legal in (
            ("project", self.project, _PROJECT),
            ("dataset", self.dataset, _DATASET),
            ("table", self.table, _TABLE),
        ):
            if not legal.fullmatch(name):
                raise ConfigError(
                    f"BigQuery {part} {name!r} is not a legal name. Write table='[project.]dataset.table'"
                )
        if len(self.table.encode()) > MAX_TABLE_BYTES:
            raise ConfigError(f"BigQuery table {self.table[:40]!r}…: its name is longer than 1,024 bytes of UTF-8")

    @classmethod
    def parse(cls, text: str, project: str) -> TableRef:
        """Parse ``dataset.table`` or ``project.dataset.table``.

        :param project: default project.
        """
        dataset, _, table = text.rpartition(".")
        _, _, dataset = dataset.rpartition(".")
        return cls(project_in_name(text) or project, dataset, table)

    @property
    def id(self) -> str:
        """``project.dataset.table``."""
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def sql(self) -> str:
        """Quoted name for SQL."""
        return f"`{self.id}`"

    @property
    def resource_name(self) -> str:
        """Name for the Storage Write API."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    def sibling(self, table: str) -> TableRef:
        """Return another table of the same dataset."""
        return replace(self, table=table)


def project_in_name(text: str) -> str | None:
    """Return the project in ``project.dataset.table``, or None."""
    return text.rpartition(".")[0].rpartition(".")[0] or None


def literal(value: str | int | dt.date | None, type_name: str = "STRING") -> str:
    """Render text, a whole number, a date or NULL (cast to ``type_name``) as a literal.

    :raises ConfigError: the text holds NUL or half of a surrogate pair.
    """
    if value is None:
        return f"CAST(NULL AS {type_name})"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        return str(int(value))
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigError(f"a text of {len(value)} characters holds NUL or a lone surrogate, which BigQuery refuses")
    return f"'{value.translate(_ESCAPES)}'"


def string_array(values: Iterable[str]) -> str:
    """Render strings as an ``ARRAY<STRING>`` literal, which may be empty."""
    return f"CAST([{', '.join(map(literal, values))}] AS ARRAY<STRING>)"


def timestamp(value: dt.datetime | None) -> str:
    """Render an instant as a literal."""
    if value is None:
        return literal(None, "TIMESTAMP")
    return f"TIMESTAMP '{value.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"


def quoted(name: str) -> str:
    """Return a column's name in backticks.

    :raises ConfigError: a wrong name.
    """
    if not name or any(character in "`\\" or character < " " for character in name):
        raise ConfigError(f"{name!r} is not a column name of BigQuery")
    return f"`{name}`"


def column_list(columns: Iterable[str], alias: str = "") -> str:
    """Join quoted column names with commas, each prefixed with ``alias`` if set."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(column) for column in columns)


def any_partition(column: str | None, alias: str = "") -> str:
    """Return a condition on the partition column that is always true, for tables that require one."""
    if column is None:
        return "TRUE"
    field = column_list([column], alias)
    return f"({field} IS NULL OR {field} IS NOT NULL)"
