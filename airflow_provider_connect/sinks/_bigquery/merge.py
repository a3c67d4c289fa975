"""SQL of write mode ``merge``: one row for each key, in whatever order days arrive.

The row with the higher ``newest_by``, if given, is newer, and of two equals the one of the later day; NULL and NaN are
older than any value. Staged rows are first reduced to the newest of each key, or of equals the last one staged.
A table of tombstones remembers deletions (``delete_where``), one row for each key and day: an older day published
later, by a backfill or by days that run in parallel, does not bring the key back.

MERGE reads the key columns of the whole target: cluster the table by its key.
"""

# ruff: noqa: S608 - every value in SQL passes literal(), every name quoted() or Place

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.clients.bigquery.sql import any_partition, literal, names, quoted
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._bigquery.aliases import NEWEST, STAGED, STREAM, TARGET, TOMBSTONE
from airflow_provider_connect.sinks._bigquery.columns.schema import own_fields
from airflow_provider_connect.sinks._bigquery.names import POSITION
from airflow_provider_connect.stage.deleted import DELETED

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.place import Place
    from airflow_provider_connect.sinks._bigquery.columns.types import Column

_NO_KEY = ("FLOAT", "JSON", "RECORD")
_NO_ORDER = ("JSON", "RECORD")


@dataclass(frozen=True)
class Merge:
    """What identifies a row, and which of two rows wins.

    :param key: names of columns in the table.
    :param newest_by: the column whose highest value wins; None: the later day wins, then the later staged row.
    :param delete_where: a BOOL column; where it is true, the key is deleted.
    :param tombstones: the table of deletions; None without ``delete_where``.
    :param may_be_nan: whether ``newest_by`` is a floating-point column.
    """

    key: tuple[str, ...]
    newest_by: str | None = None
    delete_where: str | None = None
    tombstones: Place | None = None
    may_be_nan: bool = False

    def order(self, value: str) -> str:
        """Return SQL that makes a value of ``newest_by`` comparable: NaN, which equals nothing, becomes NULL."""
        return f"IF(IS_NAN({value}), NULL, {value})" if self.may_be_nan else value


def merge_of(
    columns: Sequence[Column],
    key: Sequence[str],
    newest_by: str | None,
    delete_where: str | None,
    tombstones: Place | None,
) -> Merge:
    """Return how to merge; the options name columns as the source does.

    :raises ConfigError: naming every option whose column is missing or has an unsuitable type.
    """
    by_source = {column.source: column for column in columns}
    problems: list[str] = []

    def find(option: str, source: str, refused: tuple[str, ...]) -> str:
        column = by_source.get(source)
        if column is None:
            problems.append(f"{option} names {source!r}, which the source lacks; it has {', '.join(sorted(by_source))}")
            return source
        type_name = column.target["type"]
        if column.target.get("mode") == "REPEATED" or type_name in refused:
            problems.append(
                f"{option} names {source!r}, a {type_name} column, which BigQuery cannot compare: name another"
            )
        elif option == "delete_where" and type_name != "BOOLEAN":
            problems.append(f"delete_where names {source!r}, a {type_name} column: name a BOOL column")
        return column.name

    if not key:
        problems.append("write_mode='merge' needs key=(…), the columns that identify a row")
    found = Merge(
        key=tuple(find("key", source, _NO_KEY) for source in key),
        newest_by=find("newest_by", newest_by, _NO_ORDER) if newest_by else None,
        delete_where=find("delete_where", delete_where, ()) if delete_where else None,
        tombstones=tombstones if delete_where else None,
        may_be_nan=newest_by in by_source and by_source[newest_by].target["type"] == "FLOAT",
    )
    if problems:
        raise ConfigError("; ".join(problems))
    return found


def tombstone_fields(merge: Merge, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return the fields of the table of tombstones: key, ``newest_by``, and the deleting day and stream."""
    by_name = {column.name: column.target for column in columns}
    own = own_fields(
        ("day", "DATE", "The day whose data deleted the key."),
        (STREAM, "STRING", "The stream whose data deleted the key."),
    )
    return [{**by_name[name], "mode": "NULLABLE"} for name in _kept(merge)] + own


def _kept(merge: Merge) -> tuple[str, ...]:
    """Return the columns that are kept of a deleted row."""
    return tuple(dict.fromkeys((*merge.key, *((merge.newest_by,) if merge.newest_by else ()))))


def keyless(merge: Merge, columns: Sequence[Column], staging: Place) -> str:
    """Return SQL that counts staged rows without a key."""
    expressions = _expressions(columns)
    missing = " OR ".join(f"{expressions[name]} IS NULL" for name in merge.key)
    return f"(SELECT COUNT(*) FROM {staging.sql} AS {STAGED} WHERE {missing})"


def merge_statements(
    merge: Merge,
    columns: Sequence[Column],
    *,
    stream: str,
    target: Place,
    staging: Place,
    day: dt.date,
    filter_column: str | None = None,
    softly: bool = False,
) -> list[str]:
    """Return the statements that bring a staged day into the target.

    :param softly: whether a new row says that it is not deleted; of known ones others say it.
    """
    newest = _newest(merge, columns, staging)
    statements = []
    deleted = "FALSE"
    if merge.delete_where:
        deleted = f"COALESCE({NEWEST}.{quoted(merge.delete_where)}, FALSE)"
    if merge.tombstones:
        kept = _kept(merge)
        own = f"{literal(day)}, {literal(stream)}"
        statements = [
            f"DELETE FROM {merge.tombstones.sql} AS {TOMBSTONE}\n"
            f"WHERE {TOMBSTONE}.`day` = {literal(day)} AND {TOMBSTONE}.`{STREAM}` = {literal(stream)}",
            f"INSERT INTO {merge.tombstones.sql} ({names((*kept, 'day', STREAM))})\n"
            f"SELECT {names(kept, NEWEST)}, {own} FROM ({newest}) AS {NEWEST} WHERE {deleted}",
        ]
        newest = (
            f"SELECT {names((column.name for column in columns), NEWEST)} FROM ({newest}) AS {NEWEST}\n"
            f"WHERE NOT EXISTS (SELECT 1 FROM {merge.tombstones.sql} AS {TOMBSTONE}\n"
            f"  WHERE {_same_key(merge, TOMBSTONE)} AND NOT {_newer(merge, TOMBSTONE, day)})"
        )
    written = [column.name for column in columns]
    changed = [name for name in written if name.lower() not in {key.lower() for key in merge.key}]
    updates = [f"{quoted(name)} = {NEWEST}.{quoted(name)}" for name in changed]
    day_literal = literal(day)
    mark, live = (f", {quoted(DELETED)}", ", FALSE") if softly else ("", "")
    when = f"WHEN MATCHED AND {_newer(merge, TARGET, day)}"
    delete = f"{when} AND {deleted} THEN DELETE\n" if merge.delete_where else ""
    statements.append(
        f"MERGE INTO {target.sql} AS {TARGET} USING (\n{newest}\n) AS {NEWEST}\n"
        f"ON {_same_key(merge, TARGET)} AND {any_partition(filter_column, TARGET)}\n"
        f"{delete}"
        f"{when} THEN UPDATE SET {', '.join([*updates, f'`day` = {day_literal}'])}\n"
        f"WHEN NOT MATCHED AND NOT {deleted} THEN INSERT ({names([*written, 'day'])}{mark})\n"
        f"  VALUES ({names(written, NEWEST)}, {day_literal}{live})"
    )
    return statements


def _newest(merge: Merge, columns: Sequence[Column], staging: Place) -> str:
    expressions = _expressions(columns)
    order = [f"{merge.order(expressions[merge.newest_by])} DESC NULLS LAST"] if merge.newest_by else []
    order.append(f"{STAGED}.{quoted(POSITION)} DESC")
    selected = ", ".join(f"{column.expression} AS {quoted(column.name)}" for column in columns)
    return (
        f"SELECT {selected} FROM {staging.sql} AS {STAGED} WHERE TRUE\n"
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {', '.join(expressions[name] for name in merge.key)}"
        f" ORDER BY {', '.join(order)}) = 1"
    )


def _expressions(columns: Sequence[Column]) -> dict[str, str]:
    return {column.name: column.expression for column in columns}


def _same_key(merge: Merge, alias: str) -> str:
    return " AND ".join(f"{alias}.{quoted(name)} = {NEWEST}.{quoted(name)}" for name in merge.key)


def _newer(merge: Merge, alias: str, day: dt.date) -> str:
    """Return the condition under which the newest staged row of a key, of ``day``, may replace an existing row."""
    by_day = f"({alias}.`day` IS NULL OR {alias}.`day` <= {literal(day)})"
    if merge.newest_by is None:
        return by_day
    old, new = (merge.order(f"{of}.{quoted(merge.newest_by)}") for of in (alias, NEWEST))
    same = f"({new} = {old} OR ({new} IS NULL AND {old} IS NULL))"
    # COALESCE: a comparison with NULL gives NULL, and so does NOT of it.
    return f"COALESCE({new} > {old} OR ({old} IS NULL AND {new} IS NOT NULL) OR ({same} AND {by_day}), FALSE)"
