"""OpenSearch documents, one for each row, under one alias that names an index for each published day.

Each publish fills an index of its own, and one call switches the alias to it. Guide: ``docs/documents.md``.

**Connection.** Airflow's ``http`` type: host and port, login and password, or ``auth`` ``bearer`` or ``api_key`` in the
extra, and ``ca_bundle``. https, or ``http`` to loopback.

**Delivery.** Each day, or the newest snapshot, once and complete. Readers search the alias, and see the old day or the
new one. A switch that arrives late gets status 404 and changes nothing, because it must remove what it has read.

**Ledger.** Index ``connect-<alias>-ledger``, with a note for each index. A note is written before the switch, and counts
once the alias ``connect-<alias>-<stream>-head`` names its index.

**Schema.** The mapping is made of the columns, with ``dynamic: false``: the order of arrival decides no type. A column
whose type differs from the published one is refused before the poll.

**Limits.** An index for each day: for snapshots, and for days of millions of rows. ``http.max_content_length`` of the
server (100 MB by default), below which a bulk request is halved. An ``_id`` over 512 bytes is hashed.

**Errors.** A server that is away, or busy (429, 503), is retriable, and the old day stays. A refused login is not. A
document that the server refuses fails the day with the field's name.

Vendor facts: https://docs.opensearch.org/latest/api-reference/ (2026-11), measured on 2.19 and 3.8.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from airflow_provider_connect.sink import Connections, Publisher, Sink, StreamKey
from airflow_provider_connect.window import SourceKind


class OpenSearchSink(Sink):
    """Options of an OpenSearch alias as a sink."""

    name: ClassVar[str] = "opensearch"
    connection_types: ClassVar[dict[str, tuple[str, ...]]] = {"conn_id": ("http",)}

    conn_id: str = Field(default="opensearch_default", description="Airflow connection of type http.")
    alias: str = Field(
        description="Alias that readers search: lower-case letters, digits, '_', '-', '.'.",
        examples=["mixpanel_events"],
        pattern=r"^[a-z0-9][a-z0-9_.-]{0,99}$",
    )
    mode: Literal["alias"] = Field(
        default="alias", description="'alias' fills a new index for each publish, and switches the alias to it."
    )
    id_columns: tuple[str, ...] = Field(
        default=(),
        description="Columns whose values are the document's _id, such as record_key. Of rows with the same values in "
        "a day, the last one stays. Default: the row's position in its day.",
    )
    mapping: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="Fields of the mapping that replace those of the columns: {'title': {'type': 'text'}}.",
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of new indices, such as {'number_of_replicas': 2}."
    )
    bulk_bytes: int = Field(
        default=5_000_000, ge=1_000, le=100_000_000, description="Largest body of a bulk request, in bytes."
    )
    bulk_documents: int = Field(default=5_000, ge=1, le=100_000, description="Most documents of a bulk request.")

    @field_validator("id_columns", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    @property
    def target(self) -> str:
        """Return connection and alias."""
        return f"{self.conn_id}/{self.alias}"

    @property
    def asset_uri(self) -> str:
        """Return the URI of the alias."""
        return f"opensearch://{self.target}"

    def kind_problems(self, kind: SourceKind) -> list[str]:
        """Refuse increments, whose days several runs fill."""
        return ["mode='alias' takes days and snapshots, no increments"] if kind == "increment" else []

    def replaces_whole(self, kind: SourceKind) -> bool:
        """Return True for snapshots."""
        return kind == "snapshot"

    def check(self, connections: Connections) -> list[str]:
        """Validate the connection without network access."""
        from airflow_provider_connect.sinks._opensearch.client import check_connection  # noqa: PLC0415

        return check_connection(connections[self.conn_id])

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher for one stream, without network."""
        from airflow_provider_connect.sinks._opensearch.publisher import OpenSearchPublisher  # noqa: PLC0415  # heavy

        return OpenSearchPublisher(self, key, connections[self.conn_id])
