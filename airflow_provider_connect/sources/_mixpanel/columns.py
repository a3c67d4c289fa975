"""The columns of Mixpanel's rows: names, types, meanings. DAG files import this: keep it light."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.polling.columns import Column, arrow_field
from airflow_provider_connect.sources._mixpanel.promote import Promoted

if TYPE_CHECKING:
    import pyarrow as pa

Regime = Literal["utc", "project_local"]

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

    fields = [arrow_field(name, column) for name, column in columns.items()]
    for name, promoted, kind in promote:
        column = Column(kind, f"Property {name!r} where it is a {kind}.", few_values=kind == "string")
        fields.append(arrow_field(promoted, column))
    return pa.schema(fields)
