"""Soft deletes of a Delta table: an extra file holds all rows that vanished from the source.

The file lies in the newest snapshot's partition, and every snapshot writes it again. ``…/<day>/deleted`` counts its
rows. The ledger's ``rows`` counts live rows only. Each try of a commit may write another file, so no manifest names it,
and ``…/attempt/<attempt>/deleted`` records the committed one.
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

    :raises ConfigError: they have none.
    """
    if view.table is not None and view.files and RECORD_KEY not in view.column_types:
        raise ConfigError(
            f"table {view.folder.url} holds rows without {RECORD_KEY}, so deletes='soft' cannot find the vanished "
            "ones. Publish one snapshot with deletes='hard' first"
        )


class SoftDeleter:
    """Writes a publish's file of deleted rows, once for all tries on the same table files."""

    def __init__(self) -> None:
        self._published_paths: list[str] = []
        self._result: SoftDeleteResult | None = None

    def write(self, view: LedgerView, publish: Publish) -> SoftDeleteResult:
        """Write the rows of this table version that the snapshot lacks."""
        published_paths = sorted(path for _, path, _ in view.files)
        if self._result is None or published_paths != self._published_paths:
            if (
                self._result is not None and self._result.file is not None
            ):  # written for a table version that is outdated
                view.folder.delete(self._result.file.path)
            self._published_paths, self._result = published_paths, _write_missing(view, publish, published_paths)
        return self._result


def _write_missing(view: LedgerView, publish: Publish, published_paths: list[str]) -> SoftDeleteResult:
    """Write the rows that a snapshot lacks.

    :raises DataError: records were rejected, so their rows would seem vanished.
    """
    polled = publish.manifest.polled
    if rejected_rows := sum(file.rows for file in polled.rejects):
        raise DataError(
            f"table {view.folder.url}: the source has set {rejected_rows:,} rows of the snapshot aside. "
            "Without their keys, vanished rows cannot be found. Correct them in the source, or set deletes='hard'"
        )
    polled_at = publish.manifest.polled_at or dt.datetime.combine(publish.day.date, dt.time(), tzinfo=dt.UTC)
    return write_deleted_rows(
        view.folder,
        published_paths,
        [file.path for file in polled.files],
        path=data_file(publish.day, publish.manifest.attempt, polled.parts, new_deleted_suffix()),
        schema=columns_of_files(view, published_paths, excluded=MARK_COLUMNS),
        polled_at=polled_at,
        erase_list=read_erase_list(view.folder, view.table),
    )


def columns_of_files(view: LedgerView, paths: Iterable[str], excluded: Iterable[str] = ()) -> pa.Schema:
    """Return the columns of files in the table's types, all nullable.

    Files that others compacted may have other types, such as Spark's times. A column that is never NULL in one file may
    be missing in another.
    """
    import pyarrow as pa

    types, excluded_names, schemas = view.column_types, {*excluded}, []
    for path in paths:
        with open_parquet(view.folder, path) as file:
            file_schema = file.schema_arrow
        schemas.append(
            pa.schema(
                [
                    field.with_type(types.get(field.name, field.type)).with_nullable(True)  # noqa: FBT003
                    for field in file_schema
                    if field.name not in excluded_names
                ]
            )
        )
    return pa.unify_schemas(schemas) if schemas else pa.schema([])
