"""OpenSearch documents, one for each row, under one alias that names an index for each published day.

Each publish fills an index of its own, and one call switches the alias to it. Guide: ``docs/documents.md``.

**Connection.** Airflow's ``http`` type: host and port, login and password, or ``auth`` ``bearer`` or ``api_key`` in the
extra, and ``ca_bundle``. https, or ``http`` to loopback.

**Delivery.** Each day, or the newest snapshot, once and complete. Readers search the alias, and see the old day or the
new one. A switch that arrives late gets status 404 and changes nothing, because it must remove what it has read.

**Ledger.** Index ``connect-<alias>-ledger``, with a note for each index. It is written before the switch, and counts
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

from typing import ClassVar

from airflow_provider_connect.sink import Connections, Publisher, StreamKey
from airflow_provider_connect.sinks._opensearch.options import OpenSearchOptions


class OpenSearchSink(OpenSearchOptions):
    """Options of an OpenSearch alias as a sink."""

    name: ClassVar[str] = "opensearch"

    def check(self, connections: Connections) -> list[str]:
        """Validate the connection without network access."""
        from airflow_provider_connect.sinks._opensearch.client import check_connection  # noqa: PLC0415

        return check_connection(connections[self.conn_id])

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher for one stream, without network."""
        from airflow_provider_connect.sinks._opensearch.publisher import OpenSearchPublisher  # noqa: PLC0415  # heavy

        return OpenSearchPublisher(self, key, connections[self.conn_id])
