"""Tombstones: keys that ``delete_where`` deleted, with their day, in a file beside the table.

They keep an older day, loaded later, from bringing a deleted row back. The application transaction ``…/tombstones``
names the file by a number, so that data and tombstones change in one commit. A publish that changes tombstones writes a
new file. A sweep deletes files of attempts that the log has as published or swept, except the named file.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._delta.app_transactions import app_prefix
from airflow_provider_connect.sinks._delta.log import open_table
from airflow_provider_connect.stage.manifest import ATTEMPT_PATTERN, CONTROL_FOLDER
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rows import iterate_batches, open_parquet

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from airflow_provider_connect.sinks._delta.ledger import LedgerView
    from airflow_provider_connect.sinks._delta.merge_rule import MergeRule

FOLDER = f"{CONTROL_FOLDER}/tombstones"
_FILE = re.compile(rf"{FOLDER}/(?P<number>[0-9a-f]{{16}})-(?P<attempt>{ATTEMPT_PATTERN.pattern})\.parquet")
_BATCH_BYTES = 8 << 20
_NUMBER_BITS = 62


def tombstones_id(view: LedgerView) -> str:
    """Return the application id whose version is the number of the file of tombstones. 0 without a file."""
    return f"{app_prefix(view.key)}tombstones"


def tombstones_number(view: LedgerView) -> int:
    """Return the number of the file of tombstones, or 0."""
    return view.app_transactions.get(tombstones_id(view), 0)


def tombstones_file(view: LedgerView) -> str | None:
    """Return the path of the file of tombstones, or None without tombstones.

    :raises ReplacedTombstonesError: another publish has just replaced the file.
    :raises ConfigError: the file is gone.
    """
    number = tombstones_number(view)
    if not number:
        return None
    for entry in view.folder.files(FOLDER):
        if (match := _FILE.fullmatch(entry.name)) and int(match["number"], 16) == number:
            return entry.name
    newest = open_table(view.folder.url)
    if newest is not None and view.table is not None and newest.version() > view.table.version():
        raise ReplacedTombstonesError(f"table {view.folder.url}: another publish has just replaced its tombstones")
    raise ConfigError(
        f"table {view.folder.url} names the tombstones {FOLDER}/{number:016x}-…, which are gone. Restore the file. "
        "Without it, deleted rows would come back"
    )


class ReplacedTombstonesError(RetriableError):
    """Another publish has replaced the tombstones since this one read the log."""


class TombstoneWriter:
    """Writes a new file of tombstones.

    :param attempt: its name becomes part of the file's name.
    """

    def __init__(self, view: LedgerView, attempt: str, schema: pa.Schema) -> None:
        self._view = view
        self._number = 1 + secrets.randbelow((1 << _NUMBER_BITS) - 1)
        self._path = f"{FOLDER}/{self._number:016x}-{attempt}.parquet"
        self._schema = schema

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """Write all tombstones. Returns the file's number, or 0 without tombstones."""
        with RowWriter(self._view.folder, self._path, self._schema) as writer:
            for batch in batches:
                writer.write(batch)
        return self._number if writer.file is not None else 0

    def delete(self) -> None:
        """Delete the file, which no commit names."""
        self._view.folder.delete(self._path)


def tombstone_schema(rule: MergeRule, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the columns of tombstones: the compared columns, and the day that deleted the key."""
    import pyarrow as pa

    return pa.schema([*((name, types[name]) for name in rule.compared_columns), ("day", pa.date32())])


def read_tombstones(view: LedgerView, path: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield all tombstones."""
    import pyarrow as pa

    with open_parquet(view.folder, path) as file:
        for batch in iterate_batches(file, _BATCH_BYTES):
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def tombstones_of_other_days(batches: Iterator[pa.RecordBatch], day: dt.date) -> Iterator[pa.RecordBatch]:
    """Yield the tombstones of all days except one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        yield batch.filter(pc.not_equal(batch.column("day"), pa.scalar(day)))


def deleted_rows(
    view: LedgerView, paths: list[str], deletes: np.ndarray, schema: pa.Schema, day: dt.date
) -> Iterator[pa.RecordBatch]:
    """Yield the tombstones of a staged day.

    :param deletes: for each staged row, whether it deletes its key.
    """
    import pyarrow as pa

    start = 0
    for path in paths:
        with open_parquet(view.folder, path) as file:
            names = [name for name in schema.names if name in file.schema_arrow.names and name != "day"]
            for batch in iterate_batches(file, _BATCH_BYTES, names):
                rows = batch.filter(pa.array(deletes[start : start + batch.num_rows]))
                start += batch.num_rows
                columns = [
                    pa.repeat(pa.scalar(day), rows.num_rows)
                    if field.name == "day"
                    else rows.column(field.name).cast(field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def unused_tombstones(view: LedgerView) -> list[str]:
    """Return the files of tombstones that no commit names and none may name any more."""
    if not view.belongs_to_stream:
        return []
    number = tombstones_number(view)
    matches = [match for entry in view.folder.files(FOLDER) if (match := _FILE.fullmatch(entry.name))]
    return [
        match.string
        for match in matches
        if int(match["number"], 16) != number and view.attempt_generation(match["attempt"]) is not None
    ]
