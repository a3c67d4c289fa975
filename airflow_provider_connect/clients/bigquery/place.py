"""Where a BigQuery table lies."""

from __future__ import annotations

import re
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


@dataclass(frozen=True)
class Place:
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
    def parse(cls, text: str, project: str) -> Place:
        """Return the place that ``dataset.table`` or ``project.dataset.table`` names.

        :param project: the project where the text has none.
        """
        dataset, _, table = text.rpartition(".")
        _, _, dataset = dataset.rpartition(".")
        return cls(project_of(text) or project, dataset, table)

    @property
    def id(self) -> str:
        """``project.dataset.table``."""
        return f"{self.project}.{self.dataset}.{self.table}"

    @property
    def sql(self) -> str:
        """The name as SQL wants it, quoted."""
        return f"`{self.id}`"

    @property
    def path(self) -> str:
        """The name as the Storage Write API wants it."""
        return f"projects/{self.project}/datasets/{self.dataset}/tables/{self.table}"

    def sibling(self, table: str) -> Place:
        """Return another table of the same dataset."""
        return replace(self, table=table)


def project_of(text: str) -> str | None:
    """Return the project that ``project.dataset.table`` names, None where the text has none."""
    return text.rpartition(".")[0].rpartition(".")[0] or None
