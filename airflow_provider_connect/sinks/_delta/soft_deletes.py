"""Soft deletes of a Delta table: the rows that a snapshot no longer has, in a file beside its own.

They lie in the partition of the newest snapshot, like all rows, and every snapshot writes them anew. How many they are
is the application transaction ``…/<day>/deleted``: the ledger's rows are those that are not deleted. No manifest names
their file, as each try of a commit may find other rows and write one of its own: the commit records which one it is, as
``…/attempt/<attempt>/deleted``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._delta.erase_list import read_erase_list
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.manifest import data_file
from airflow_provider_connect.stage.missing_rows import SoftDeleteResult, write_deleted_rows
from airflow_provider_connect.stage.rows import open_parquet
from airflow_provider_connect.stage.soft_deletes import MARK_COLUMNS, new_deleted_suffix

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._delta.ledger import LedgerView


def require_published_keys(view: LedgerView) -> None:
    """Check, before the poll, that published rows have a key.

    :raises ConfigError: nobody could tell which of them have vanished.
    """
    if view.table is not None and view.files and RECORD_KEY not in _types(view):
        raise ConfigError(
            f"table {view.folder.url} holds rows without {RECORD_KEY}, and deletes='soft' could not tell which of them "
            "have vanished: publish one snapshot with deletes='hard' first"
        )


class SoftDeleter:
    """What a publish deletes: written once for all tries of its commit that find the same files in the table."""

    def __init__(self) -> None:
        self._of: list[str] = []
        self._made: SoftDeleteResult | None = None

    def write(self, view: LedgerView, publish: Publish) -> SoftDeleteResult:
        """Return what vanishes from this version of the table."""
        before = sorted(path for _, path, _ in view.files)
        if self._made is None or before != self._of:
            if self._made is not None and self._made.file is not None:  # the version that it was made for is gone
                view.folder.delete(self._made.file.path)
            self._of, self._made = before, _deleted_by(view, publish, before)
        return self._made


def _deleted_by(view: LedgerView, publish: Publish, before: list[str]) -> SoftDeleteResult:
    """Write what a snapshot no longer has of some files, into a file of its attempt.

    :raises DataError: rows of the snapshot were set aside: their keys would count as vanished.
    """
    polled = publish.manifest.polled
    if aside := sum(file.rows for file in polled.rejects):
        raise DataError(
            f"table {view.folder.url}: the source has set {aside:,} rows of the snapshot aside; without their keys "
            "nobody knows which ones have vanished. Mend them in the source, or set deletes='hard'"
        )
    at = publish.manifest.polled_at or dt.datetime.combine(publish.day.date, dt.time(), tzinfo=dt.UTC)
    return write_deleted_rows(
        view.folder,
        before,
        [file.path for file in polled.files],
        path=data_file(publish.day, publish.manifest.attempt, polled.parts, new_deleted_suffix()),
        schema=columns_of_files(view, before, excluded=MARK_COLUMNS),
        polled_at=at,
        erase_list=read_erase_list(view.folder, view.table),
    )


def columns_of_files(view: LedgerView, paths: Iterable[str], excluded: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of some files together, with the table's types.

    Files that others compacted may hold the same values as other types: Spark's times, or long strings. A column that
    is never NULL in one file may be missing in another, so none is declared to be.
    """
    import pyarrow as pa

    types, left_out, found = _types(view), {*excluded}, []
    for path in paths:
        with open_parquet(view.folder, path) as file:
            there = file.schema_arrow
        found.append(
            pa.schema(
                [
                    field.with_type(types.get(field.name, field.type)).with_nullable(True)  # noqa: FBT003
                    for field in there
                    if field.name not in left_out
                ]
            )
        )
    return pa.unify_schemas(found) if found else pa.schema([])


def _types(view: LedgerView) -> dict[str, pa.DataType]:
    import pyarrow as pa

    assert view.table is not None
    return {field.name: field.type for field in pa.schema(view.table.schema().to_arrow())}
