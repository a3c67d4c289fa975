"""Patterns that choose tables, such as ``public.*`` and ``!public.audit_*``. DAG files import this."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from airflow_provider_connect.clients.sql.database import ListedTable

_PART = r'"(?:[^"]|"")+"|[^."!]+'
_PATTERN = re.compile(rf"(?P<excludes>!?)(?:(?P<schema>{_PART})\.)?(?P<name>{_PART})")
_WILDCARDS = re.compile(r"[*?]")
HINT = "write it as orders, public.orders, public.* or !public.audit_*"


class TablePattern(NamedTuple):
    """A pattern of tables. Names are case-sensitive, ``*`` stands for any characters and ``?`` for one.

    :param schema: "" for tables that their name alone names.
    """

    text: str
    schema: str
    name: str
    excludes: bool = False

    @property
    def names_one_table(self) -> bool:
        """True without a wildcard. Such a pattern also names a view."""
        return not any(map(_has_wildcard, (self.schema, self.name)))

    def matches(self, table: ListedTable) -> bool:
        """Return True if the pattern names the table. A wildcard names only tables that store rows."""
        if not _part_matches(self.name, table.name):
            return False
        if not (_part_matches(self.schema, table.schema) if self.schema else table.is_default):
            return False
        return table.stores_rows or self.names_one_table or self.excludes


def parse_pattern(text: str) -> TablePattern:
    """Parse a pattern. A part in double quotes has no wildcards.

    :raises ValueError: the text has another form.
    """
    match = _PATTERN.fullmatch(text)
    if match is None or not text.strip():
        raise ValueError(f"{text!r} is no table: {HINT}")
    return TablePattern(text, match["schema"] or "", match["name"], excludes=bool(match["excludes"]))


def validate_patterns(texts: Sequence[str]) -> None:
    """Refuse patterns that can choose no table. Raises ValueError."""
    if all(parse_pattern(text).excludes for text in texts):
        raise ValueError(f"name at least one table to load: {HINT}")


class ChosenTables(NamedTuple):
    """The tables that patterns choose.

    :param missing: texts of patterns without a wildcard that name no table.
    """

    tables: list[ListedTable]
    missing: list[str]


def choose_tables(texts: Iterable[str], tables: Iterable[ListedTable]) -> ChosenTables:
    """Choose the tables that a pattern names and no pattern with ``!`` excludes."""
    patterns = [parse_pattern(text) for text in texts]
    exclusions = [pattern for pattern in patterns if pattern.excludes]
    included = [pattern for pattern in patterns if not pattern.excludes]
    listed = list(tables)
    chosen = [
        table
        for table in listed
        if any(pattern.matches(table) for pattern in included)
        and not any(pattern.matches(table) for pattern in exclusions)
    ]
    missing = [
        pattern.text
        for pattern in included
        if pattern.names_one_table and not any(pattern.matches(table) for table in listed)
    ]
    return ChosenTables(chosen, missing)


def _part_matches(part: str, name: str) -> bool:
    if part.startswith('"'):
        return part[1:-1].replace('""', '"') == name
    return fnmatch.fnmatchcase(name, part.replace("[", "[[]"))


def _has_wildcard(part: str) -> bool:
    return not part.startswith('"') and _WILDCARDS.search(part) is not None
