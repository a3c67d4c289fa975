"""The columns of Mixpanel's rows: names, types, meanings. DAG files import this: keep it light."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Regime = Literal["utc", "project_local"]
PromotedType = Literal["string", "double", "bigint", "boolean"]

COLUMNS: dict[str, tuple[str, str]] = {
    "event": ("string", "Name of the event."),
    "distinct_id": ("string", "Whom the event is about; a number keeps its JSON text; null if missing."),
    "insert_id": ("string", "The client's or server's $insert_id; null if missing."),
    "time": ("timestamp", "When the event happened (UTC); null if the record has no usable time."),
    "time_local": (
        "wall",
        "What the project's clock showed, as exported; null unless the project's timestamps are project_local.",
    ),
    "properties": ("json", "All properties: the JSON text as exported, byte for byte."),
    "processing_time": ("timestamp", "When the vendor received the event (UTC, from mp_processing_time_ms)."),
    "record_key": ("string", "Identity of the event, 32 hex digits: see key_origin."),
    "key_origin": (
        "string",
        "vendor: the key is made from event, distinct_id, time and $insert_id; fallback: one of them is missing, "
        "and it is made from the event's name and all properties.",
    ),
}

_FEW_VALUES = ("event", "key_origin")


def schema(promote: tuple[tuple[str, str, PromotedType], ...]) -> pa.Schema:
    """Return the schema of all batches, with metadata as :meth:`.Poller.schema` defines it."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "json": pa.string(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "wall": pa.timestamp("us"),
        "double": pa.float64(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
    }
    required = {"event", "properties", "record_key", "key_origin"}
    few = {"few_values": "yes"}
    marks = {"json": {"json": "checked"}}
    fields = [
        pa.field(
            name,
            types[kind],
            name not in required,
            {"comment": comment} | (few if name in _FEW_VALUES else {}) | marks.get(kind, {}),
        )
        for name, (kind, comment) in COLUMNS.items()
    ]
    for name, column, kind in promote:
        comment = {"comment": f"Property {name!r} where it is a {kind}."}
        fields.append(pa.field(column, types[kind], metadata=comment | (few if kind == "string" else {})))
    return pa.schema(fields)
