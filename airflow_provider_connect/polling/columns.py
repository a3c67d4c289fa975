"""Declares the columns of a source's rows: name, type, comment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.values.ddl import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

_SPARK_NAMES = {"json": "STRING", "wall": "TIMESTAMP_NTZ"}


class RowColumn(NamedTuple):
    """One column.

    :param kind: Spark's type name in lower case, without parameters. Also ``json`` (document text), ``wall`` (time
        without zone) and ``strings`` (list of texts).
    :param few_values: True if the column has few distinct values.
    """

    kind: str
    comment: str
    required: bool = False
    few_values: bool = False


def arrow_field(name: str, column: RowColumn) -> pa.Field:
    """Return a column as an Arrow field, with the metadata of :meth:`.Poller.schema`."""
    import pyarrow as pa

    kind = column.kind
    type_ = pa.list_(pa.string()) if kind == "strings" else arrow_type(_SPARK_NAMES.get(kind, kind.upper()))
    metadata = {"comment": column.comment}
    metadata |= {"few_values": "yes"} if column.few_values else {}
    metadata |= {"json": "checked"} if kind == "json" else {}
    return pa.field(name, type_, not column.required, metadata)
