"""The columns of Mixpanel's rows: names, types, meanings. DAG files import this: keep it light."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from airflow_provider_connect.sources._mixpanel.promote import Promoted, decimal_digits

if TYPE_CHECKING:
    import pyarrow as pa

Regime = Literal["utc", "project_local"]

ColumnKind = Literal["string", "json", "timestamp", "wall", "date", "double", "bigint", "boolean"]
"""Types of columns: ``timestamp`` is an instant, ``wall`` what a clock showed, ``json`` a document's text."""


class Column(NamedTuple):
    """One column of a stream.

    :param comment: what it holds; goes to the sink with the column.
    :param required: never null.
    :param few_values: its values repeat.
    """

    kind: ColumnKind
    comment: str
    required: bool = False
    few_values: bool = False


COLUMNS: dict[str, Column] = {
    "event": Column("string", "Name of the event.", required=True, few_values=True),
    "distinct_id": Column("string", "Whom the event is about; a number keeps its JSON text; null if missing."),
    "insert_id": Column("string", "The client's or server's $insert_id; null if missing."),
    "time": Column("timestamp", "When the event happened (UTC); null if the record has no usable time."),
    "time_local": Column(
        "wall",
        "What the project's clock showed, as exported; null unless the project's timestamps are project_local.",
    ),
    "properties": Column("json", "All properties: the JSON text as exported, byte for byte.", required=True),
    "processing_time": Column("timestamp", "When the vendor received the event (UTC, from mp_processing_time_ms)."),
    "record_key": Column("string", "Identity of the event, 32 hex digits: see key_origin.", required=True),
    "key_origin": Column(
        "string",
        "vendor: the key is made from event, distinct_id, time and $insert_id; fallback: one of them is missing, "
        "and it is made from the event's name and all properties.",
        required=True,
        few_values=True,
    ),
}
"""Those of the raw export."""


def schema(promote: tuple[Promoted, ...] = (), columns: Mapping[str, Column] = COLUMNS) -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "string": pa.string(),
        "json": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "wall": pa.timestamp("us"),
        "date": pa.date32(),
        "double": pa.float64(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
    }
    few = {"few_values": "yes"}
    marks = {"json": {"json": "checked"}}
    fields = [
        pa.field(
            name,
            types[column.kind],
            not column.required,
            {"comment": column.comment} | (few if column.few_values else {}) | marks.get(column.kind, {}),
        )
        for name, column in columns.items()
    ]
    for name, promoted, kind in promote:
        comment = {"comment": f"Property {name!r} where it is a {kind}."}
        digits = decimal_digits(kind)
        type_ = types[kind] if digits is None else pa.decimal128(*digits)
        fields.append(pa.field(promoted, type_, metadata=comment | (few if kind == "string" else {})))
    return pa.schema(fields)
