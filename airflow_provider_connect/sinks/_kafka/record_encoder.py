"""Encodes staged rows as records, and reports rows that cannot be encoded."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.kafka.outbox import Headers
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._kafka.converters import KeyEncoder
from airflow_provider_connect.sinks._kafka.ledger.view import LedgerHandover
from airflow_provider_connect.sinks._kafka.topic_rules import TopicLimits
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.rows import row_as_json
from airflow_provider_connect.values.converters import SchemaRef

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._kafka.options import KafkaOptions

KEY_STAGE, VALUE_STAGE, PUT_STAGE = "KEY_CONVERTER", "VALUE_CONVERTER", "TASK_PUT"
"""Kafka Connect's names for the stage in which a row failed."""

_HEADERS_BYTES = 128
"""Bytes of a record's header names and lengths, position and schema version."""
_FRAMING_BYTES = 512
"""Bytes of a record except key, value and headers, with a reserve.

librdkafka waits until the timeout with a record just below a topic's limit
(https://github.com/confluentinc/confluent-kafka-python/issues/476).
"""


@dataclass(frozen=True)
class DayPlan:
    """Plan of one publish, which ``begin`` returns and every ``put`` receives.

    :param content: ``rows`` sends every row, ``changes`` only a snapshot's changes.
    :param topic_by_value: topic of each value in the template's column. A single topic has the key None.
    :param dead_letter_topic: None if there can be no dead letters.
    :param generation: reserved by ``begin``. None if the transaction chooses it.
    """

    publish: Publish
    content: Literal["rows", "changes"]
    topic_by_value: dict[str | None, str]
    value_schemas: dict[str, SchemaRef]
    limits: dict[str, TopicLimits]
    dead_letter_topic: str | None
    generation: int | None = None
    handover: LedgerHandover | None = None
    key_schemas: dict[str, SchemaRef] = field(default_factory=dict)
    begin_id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True)
class RejectedRow:
    """Row that cannot become a record.

    :param column: None for the whole record.
    :param make_json: encodes the row for its dead letter.
    """

    position: int
    topic: str
    stage: str
    column: str | None
    reason: str
    key: bytes | None
    make_json: Callable[[], bytes]


@dataclass(frozen=True)
class OutgoingRecords:
    """Records of one topic, in order. Each list has one item a record.

    :param timestamps: milliseconds since 1970, 0 for a NULL.
    :param partitions: -1 lets the partitioner choose.
    """

    topic: str
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers] | None
    timestamps: list[int] | None
    partitions: list[int] | None = None
    refused: list[RejectedRow] = field(default_factory=list)

    @cached_property
    def size_bytes(self) -> int:
        return sum(map(len, filter(None, self.keys))) + sum(map(len, filter(None, self.values)))

    def select(self, rows: list[int]) -> OutgoingRecords:
        columns = ("keys", "values", "headers", "timestamps", "partitions")
        selected_columns: dict[str, Any] = {
            name: [column[row] for row in rows] for name in columns if (column := getattr(self, name)) is not None
        }
        return replace(self, **selected_columns)


class RecordEncoder:
    """Encodes one day's rows as records of one generation."""

    def __init__(self, options: KafkaOptions, plan: DayPlan, generation: int) -> None:
        self.options = options
        self.plan = plan
        self.converter = options.value_converter_for(plan.publish.schema, plan.publish.day.date)
        self.key_encoder = options.key_encoder_for(plan.publish.schema)
        identifying = (RECORD_KEY,) if RECORD_KEY in plan.publish.schema.names else options.key_fields
        are_keys = (options.key_converter, options.key_fields) == ("string", identifying)
        self._id_encoder = None if are_keys else KeyEncoder("string", plan.publish.schema, identifying, "")
        key = plan.publish.key
        self.constant_headers: Headers = [
            ("connect.connector", key.connector.encode()),
            ("connect.stream", key.stream.encode()),
            ("connect.day", str(plan.publish.day.date).encode()),
            ("connect.generation", str(generation).encode()),
        ]
        if (number := plan.publish.manifest.span_number) is not None:
            self.constant_headers.append(("connect.span", b"%d" % number))

    def encode(self, batch: pa.RecordBatch, first_position: int) -> Iterator[OutgoingRecords]:
        if len(self.plan.topic_by_value) == 1:
            (topic,) = self.plan.topic_by_value.values()
            yield self._encode_topic(topic, batch, range(first_position, first_position + batch.num_rows))
            return
        import numpy as np

        column = batch.column(self.options.route_column).to_pylist()
        rows: dict[str, list[int]] = {}
        for index, value in enumerate(column):
            rows.setdefault(self.plan.topic_by_value[value if value is None else str(value)], []).append(index)
        for topic, indices in rows.items():
            positions = np.asarray(indices, dtype=np.int64)
            yield self._encode_topic(topic, batch.take(positions), (positions + first_position).tolist())

    def _encode_topic(self, topic: str, batch: pa.RecordBatch, positions: Sequence[int]) -> OutgoingRecords:
        encoded_values = self.converter.encode(batch, self.plan.value_schemas.get(topic))
        encoded_keys = self.key_encoder.encode(batch, self.plan.key_schemas.get(topic))
        deleted_rows = self._deleted_rows(batch)
        values = (
            [None if row in deleted_rows else value for row, value in enumerate(encoded_values.values)]
            if deleted_rows
            else encoded_values.values
        )
        timestamps = self._timestamps(batch)
        rejected: dict[int, tuple[str, str | None, str]] = {
            row: (VALUE_STAGE, *reason) for row, reason in encoded_values.refused.items() if row not in deleted_rows
        }
        rejected |= {row: (KEY_STAGE, *reason) for row, reason in encoded_keys.refused.items()}
        ids = self._event_ids(batch, encoded_keys.values) if self.options.headers else []
        rejected |= self._rows_refused_by_topic(topic, encoded_keys.values, values, ids, timestamps)
        headers = self._headers(topic, ids, positions) if self.options.headers else None
        refusals = [
            RejectedRow(positions[row], topic, *reason, encoded_keys.values[row], partial(row_as_json, batch, row))
            for row, reason in sorted(rejected.items())
        ]
        outgoing = OutgoingRecords(topic, encoded_keys.values, values, headers, timestamps, refused=refusals)
        return outgoing.select([row for row in range(batch.num_rows) if row not in rejected]) if rejected else outgoing

    def _deleted_rows(self, batch: pa.RecordBatch) -> set[int]:
        if self.options.delete_where is None:
            return set()
        return {row for row, is_deleted in enumerate(batch.column(self.options.delete_where).to_pylist()) if is_deleted}

    def _timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        if self.options.timestamp_field is None:
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        column = batch.column(self.options.timestamp_field).cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        # librdkafka replaces 0 by the time of sending, as intended for NULL. So 1970's first instant cannot be sent.
        milliseconds: list[int] = pc.fill_null(pc.if_else(pc.equal(column, 0), -1, column), 0).to_pylist()
        return milliseconds

    def _event_ids(self, batch: pa.RecordBatch, keys: list[bytes | None]) -> list[bytes | None]:
        return keys if self._id_encoder is None else self._id_encoder.encode(batch, None).values

    def _headers(self, topic: str, ids: list[bytes | None], positions: Sequence[int]) -> list[Headers]:
        constant = list(self.constant_headers)
        if (ref := self.plan.value_schemas.get(topic)) is not None:
            constant.append(("connect.schema_version", str(ref.version).encode()))
        return [
            [*constant, ("connect.event_id", event_id or b""), ("connect.position", b"%d" % position)]
            for event_id, position in zip(ids, positions, strict=True)
        ]

    def _rows_refused_by_topic(
        self,
        topic: str,
        keys: list[bytes | None],
        values: list[bytes | None],
        ids: list[bytes | None],
        timestamps: list[int] | None,
    ) -> dict[int, tuple[str, str | None, str]]:
        limits = self.plan.limits[topic]
        framing = _FRAMING_BYTES
        if self.options.headers:
            framing += _HEADERS_BYTES + sum(len(name) + len(value or b"") for name, value in self.constant_headers)
        rejected: dict[int, tuple[str, str | None, str]] = {
            row: (
                PUT_STAGE,
                None,
                f"{size:,} bytes with headers and framing, and topic {topic!r} accepts {limits.max_message_bytes:,}",
            )
            for row, size in _too_large([keys, values, *([ids] if ids else [])], framing, limits.max_message_bytes)
        }
        if limits.is_compacted:
            keyless = (row for row, key in enumerate(keys) if key is None)
            rejected |= dict.fromkeys(keyless, (PUT_STAGE, None, "no key, and the topic is compacted"))
        if timestamps is not None:
            rejected |= {
                row: (PUT_STAGE, self.options.timestamp_field, reason) for row, reason in _too_far(timestamps, limits)
            }
        return rejected


def _too_large(parts: Sequence[list[bytes | None]], framing: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    longest = sum(max(map(len, filter(None, part)), default=0) for part in parts)
    if framing + longest <= max_bytes:
        return
    for row, row_parts in enumerate(zip(*parts, strict=True)):
        size = framing + sum(map(len, filter(None, row_parts)))
        if size > max_bytes:
            yield row, size


def _too_far(timestamps: list[int], limits: TopicLimits) -> Iterator[tuple[int, str]]:
    now_ms = int(time.time() * 1000)
    latest, earliest = now_ms + limits.timestamp_after_max_ms, now_ms - limits.timestamp_before_max_ms
    for row, timestamp in enumerate(timestamps):
        if timestamp < 0:
            yield row, "a time before 1970, or its first millisecond, which Kafka cannot store"
        elif timestamp and not earliest <= timestamp <= latest:
            yield row, "a time farther from now than the topic's message.timestamp limits allow"


def is_written_by(headers: Any, stream_key: StreamKey) -> bool:
    header_values = dict(headers or [])
    own_names = (stream_key.connector.encode(), stream_key.stream.encode())
    return (header_values.get("connect.connector"), header_values.get("connect.stream")) == own_names
