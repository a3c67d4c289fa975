"""Patterns that choose tables, such as ``public.*`` and ``!public.audit_*``. DAG files import this."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
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


class _PatternIndex(NamedTuple):
    """Patterns by the name that they require, so that a table is compared with few of many patterns.

    :param by_name: patterns whose name has no wildcard.
    :param with_wildcard: the other ones.
    """

    patterns: Sequence[TablePattern]
    schemas: list[str]
    by_name: Mapping[str, Sequence[TablePattern]]
    with_wildcard: Sequence[TablePattern]

    def matching(self, table: ListedTable) -> list[TablePattern]:
        """Return the patterns that name the table."""
        candidates = (*self.by_name.get(table.name, ()), *self.with_wildcard)
        return [pattern for pattern in candidates if pattern.matches(table)]


def choose_tables(texts: Iterable[str], tables: Iterable[ListedTable]) -> ChosenTables:
    """Choose the tables that a pattern names and no pattern with ``!`` excludes."""
    index = _index_patterns(tuple(texts))
    chosen, matched = [], set[TablePattern]()
    for table in tables:
        matching = index.matching(table)
        matched.update(matching)
        if matching and not any(pattern.excludes for pattern in matching):
            chosen.append(table)
    missing = [
        pattern.text
        for pattern in index.patterns
        if not pattern.excludes and pattern.names_one_table and pattern not in matched
    ]
    return ChosenTables(chosen, missing)


def pattern_schemas(texts: Iterable[str]) -> list[str]:
    """Return the sorted schemas that patterns name, "" for those without one."""
    return _index_patterns(tuple(texts)).schemas


@functools.lru_cache(maxsize=8)
def _index_patterns(texts: tuple[str, ...]) -> _PatternIndex:
    patterns = [parse_pattern(text) for text in texts]
    by_name: dict[str, list[TablePattern]] = {}
    with_wildcard = []
    for pattern in patterns:
        if _has_wildcard(pattern.name):
            with_wildcard.append(pattern)
        else:
            by_name.setdefault(_literal_name(pattern.name), []).append(pattern)
    schemas = sorted({pattern.schema for pattern in patterns})
    return _PatternIndex(patterns, schemas, by_name, with_wildcard)


def _part_matches(part: str, name: str) -> bool:
    if not _has_wildcard(part):
        return _literal_name(part) == name
    return fnmatch.fnmatchcase(name, part.replace("[", "[[]"))


def _literal_name(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _has_wildcard(part: str) -> bool:
    return not part.startswith('"') and _WILDCARDS.search(part) is not None
