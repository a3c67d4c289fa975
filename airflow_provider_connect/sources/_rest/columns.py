"""The columns of a source's rows: declared ones, those taken from a parent, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.polling.columns import Column as RowColumn
from airflow_provider_connect.polling.columns import arrow_field
from airflow_provider_connect.sources._rest.declared.records import (
    DOCUMENT,
    RECORD_KEY,
    Column,
    Records,
)

if TYPE_CHECKING:
    import pyarrow as pa


class ParentColumn(NamedTuple):
    """A column whose values are those of a column of the parent."""

    name: str
    of: str
    column: Column


def schema(records: Records, parents: tuple[ParentColumn, ...]) -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    of_parent = {one.name: f"The parent's {one.of}." for one in parents}
    declared: Mapping[str, Column] = {one.name: one.column for one in parents} | records.columns
    columns = {
        name: RowColumn(
            column.type,
            column.comment or of_parent.get(name) or f"Field {column.at or name!r} of the record.",
            required=name in records.key,
        )
        for name, column in declared.items()
    }
    if records.undeclared == "json":
        comment = "The whole record: its JSON text as sent, byte for byte."
        columns[DOCUMENT] = RowColumn("json", comment, required=True)
    comment = f"Identity of the record, 32 hex digits: made of {', '.join(records.key)}."
    columns[RECORD_KEY] = RowColumn("string", comment, required=True)
    return pa.schema([arrow_field(name, column) for name, column in columns.items()])
