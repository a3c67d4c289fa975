"""Tables, values and names as GoogleSQL text; only here does a value become part of a query.

Values are literals rather than parameters: so the text in a job's history shows all that the job did, and a person can
run it again.

Vendor facts: https://cloud.google.com/bigquery/docs/reference/standard-sql/lexical (2026-11).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from airflow_provider_connect.errors import ConfigError

# https://cloud.google.com/bigquery/docs/datasets#dataset-naming and /tables#table_naming, 2026-11. A backtick could end
# the quoting in SQL; the other characters BigQuery allows in a table's name are left out on purpose.
_PROJECT = re.compile(r"(?:[a-z0-9.-]+:)?[a-z][a-z0-9-]{3,}")
_DATASET = re.compile(r"[A-Za-z0-9_]{1,1024}")
_TABLE = re.compile(r"[\w-]{1,1024}")
MAX_TABLE_BYTES = 1024  # in UTF-8
MAX_TARGET_BYTES = 750
"""For the name that a user gives: other tables have that name and a suffix."""
_ESCAPES = {ord(c): f"\\{letter}" for c, letter in zip("\\'\n\r\t\a\b\f\v", "\\'nrtabfv", strict=True)}


@dataclass(frozen=True)
class TableRef:
    """One table: project, dataset and table names, checked to be safe inside SQL.

    :raises ConfigError: one of the names is not legal.
    """

    project: str
    dataset: str
    table: str

    def __post_init__(self) -> None:
        for what, name, legal in (
            ("project", self.project, _PROJECT),
            ("dataset", self.dataset, _DATASET),
            ("table", self.table, _TABLE),
        ):
            if not legal.fullmatch(name):
                raise ConfigError(f"BigQuery {what} {name!r}: not a legal name; write table='[project.]dataset.table'")
        if len(self.table.encode()) > MAX_TABLE_BYTES:
            raise ConfigError(f"BigQuery table {self.table[:40]!r}…: its name is longer than 1,024 bytes of UTF-8")

    @classmethod
    def parse(cls, text: str, project: str) -> TableRef:
        """Return the place that ``dataset.table`` or ``project.dataset.table`` names.

        :param project: the project where the text has none.
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
        """The name as SQL wants it, quoted."""
        return f"`{self.id}`"

    @property
    def resource_name(self) -> str:
        """The name as the Storage Write API wants it."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    def sibling(self, table: str) -> TableRef:
        """Return another table of the same dataset."""
        return replace(self, table=table)


def project_in_name(text: str) -> str | None:
    """Return the project that ``project.dataset.table`` names, None where the text has none."""
    return text.rpartition(".")[0].rpartition(".")[0] or None


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


def string_array(values: Iterable[str]) -> str:
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


def column_list(columns: Iterable[str], alias: str = "") -> str:
    """Return column names, separated by commas, each after ``alias`` if one is given."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(column) for column in columns)


def any_partition(column: str | None, alias: str = "") -> str:
    """Return a condition that always holds, for tables that want one on their partition column.

    ``require_partition_filter`` is content with any comparison of the partition column; dbt does the same.
    """
    if column is None:
        return "TRUE"
    field = column_list([column], alias)
    return f"({field} IS NULL OR {field} IS NOT NULL)"
