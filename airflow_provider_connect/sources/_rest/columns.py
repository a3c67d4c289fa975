"""The columns of a source's rows: declared ones, those taken from a parent, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.sources._rest.declared.records import (
    DOCUMENT,
    RECORD_KEY,
    Column,
    Records,
    decimal_digits,
)

if TYPE_CHECKING:
    import pyarrow as pa


class ParentColumn(NamedTuple):
    """A column whose values are those of a column of the parent."""

    name: str
    of: str
    column: Column


def arrow_type(kind: str) -> pa.DataType:
    """Return Arrow's type of a declared one."""
    import pyarrow as pa

    digits = decimal_digits(kind)
    if digits is not None:
        return pa.decimal128(*digits)
    plain: dict[str, pa.DataType] = {
        "string": pa.string(),
        "json": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
    }
    return plain[kind]


def schema(records: Records, parents: tuple[ParentColumn, ...]) -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    of_parent = {one.name: f"The parent's {one.of}." for one in parents}
    declared: Mapping[str, Column] = {one.name: one.column for one in parents} | records.columns
    fields = []
    for name, column in declared.items():
        comment = column.comment or of_parent.get(name) or f"Field {column.at or name!r} of the record."
        marks = {"json": "checked"} if column.type == "json" else {}
        is_key = name in records.key
        fields.append(pa.field(name, arrow_type(column.type), not is_key, {"comment": comment} | marks))
    if records.undeclared == "json":
        comment = "The whole record: its JSON text as sent, byte for byte."
        fields.append(pa.field(DOCUMENT, pa.string(), nullable=False, metadata={"comment": comment, "json": "checked"}))
    comment = f"Identity of the record, 32 hex digits: made of {', '.join(records.key)}."
    fields.append(pa.field(RECORD_KEY, pa.string(), nullable=False, metadata={"comment": comment}))
    return pa.schema(fields)
