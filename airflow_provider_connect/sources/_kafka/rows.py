"""Rows of records: their schema, and Arrow batches from lists of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.keys import hex_record_keys
from airflow_provider_connect.sources._kafka.columns import arrow_type, read_column
from airflow_provider_connect.sources._kafka.dead_letters import UnreadableRecord
from airflow_provider_connect.sources._kafka.options import FIELD_CONVERTERS, PREFIX, Converter, KafkaOptions
from airflow_provider_connect.sources._kafka.records import (
    BadRecordError,
    Fields,
    Record,
    json_text,
    key_fields,
    text_of,
    value_fields,
)
from airflow_provider_connect.sources._kafka.registered import ReadJson, read_registered_json
from airflow_provider_connect.stage.rejects import Reject

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally

DELETE_COLUMN = f"{PREFIX}delete"
KEY_COLUMN = f"{PREFIX}key"
VALUE_COLUMN = "value"
_MAX_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999. A producer may write nanoseconds by mistake."""
_MIN_MILLISECONDS = -62_135_596_800_000


class Decoded(NamedTuple):
    """A record whose key and value could be read.

    :param key: text or bytes of the column ``kafka_key``. Unused with key columns.
    :param value: the same of the column ``value``.
    """

    record: Record
    key: Any
    key_fields: Mapping[str, bytes]
    value: Any
    fields: Fields


class RowBuilder:
    """Makes batches of rows from records. One for each partition that is polled."""

    def __init__(self, options: KafkaOptions, registry_readers: Mapping[str, ReadJson] = MappingProxyType({})) -> None:
        self._options = options
        self.unreadable_records: list[UnreadableRecord] = []
        """Records that were set aside, if the options have a topic for them."""
        self.schema = schema_of(options)
        self._has_fields = bool(options.columns)
        read_json = {"json_schema": read_registered_json, **registry_readers}
        self._read_key_json = read_json.get(options.key_converter)
        self._read_value_json = read_json.get(options.value_converter)
        self._read_value: Callable[[bytes | None], Any] = {
            "string": lambda value: text_of(value, "value"),
            "bytes": lambda value: value,
        }.get(options.value_converter, json_text)

    def build(self, records: Sequence[Record], tally: Tally) -> pa.RecordBatch:
        """Return the rows of the records, without those that are set aside.

        :raises DataError: a record cannot be read, and ``errors_tolerance`` allows none, or no more, such records.
        """
        decoded = [result for record in records if (result := self._decode(record, tally)) is not None]
        while True:
            columns, bad_rows = self._columns(decoded)
            if not bad_rows:
                break
            for row, reason in sorted(bad_rows.items()):
                self._reject(decoded[row].record, reason, tally)
            decoded = [readable for row, readable in enumerate(decoded) if row not in bad_rows]
        tally.rows += len(records)
        return _to_batch(columns, self.schema)

    def _decode(self, record: Record, tally: Tally) -> Decoded | None:
        options = self._options
        try:
            if "timestamp" in options.own_columns:
                if (record.timestamp_ms or 0) > _MAX_MILLISECONDS:
                    raise BadRecordError("the record's timestamp is later than the year 9999")
                if (record.timestamp_ms or 0) < _MIN_MILLISECONDS:
                    raise BadRecordError("the record's timestamp is before the year 1")
            value_json = _converted(record.value, self._read_value_json)
            fields = Fields({}, is_delete=record.value is None)
            if self._has_fields:
                has_key_fields = bool(options.key_columns)
                fields = value_fields(value_json, options.envelope, options.columns, has_key_fields=has_key_fields)
            if not fields.is_row:  # it may have no key either
                tally.counts["without_row"] += 1
                return None
            keys: Mapping[str, bytes] = {}
            key: Any = record.key
            if options.key_columns:
                key_json = _converted(record.key, self._read_key_json)
                keys = key_fields(key_json, options.envelope, options.key_columns)
            elif options.key_converter == "string":
                key = text_of(record.key, "key")
            value = None if self._has_fields else self._read_value(value_json)
        except BadRecordError as error:
            self._reject(record, str(error), tally)
            return None
        return Decoded(record, key, keys, value, fields)

    def _columns(self, decoded: Sequence[Decoded]) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return the columns by name, and the reason for each row that has a value of another type."""
        import pyarrow as pa

        options, records = self._options, [row.record for row in decoded]
        columns: dict[str, Any] = {}
        bad_rows: dict[int, str] = {}
        if options.key_columns:
            for name, kind in options.key_columns.items():
                texts = [row.key_fields.get(name) for row in decoded]
                columns[name] = _typed(texts, kind, f"key's field {name!r}", bad_rows)
        else:
            columns[KEY_COLUMN] = pa.array([row.key for row in decoded], self.schema.field(KEY_COLUMN).type)
        if self._has_fields:
            for name, kind in options.columns.items():
                texts = [row.fields.values.get(name) for row in decoded]
                columns[name] = _typed(texts, kind, f"field {name!r}", bad_rows)
        else:
            columns[VALUE_COLUMN] = pa.array([row.value for row in decoded], self.schema.field(VALUE_COLUMN).type)
        columns[DELETE_COLUMN] = pa.array([row.fields.is_delete for row in decoded], pa.bool_())
        places = [
            pa.array([record.identity for record in records], pa.string()),
            pa.array([record.partition for record in records], pa.int32()),
            pa.array([record.offset for record in records], pa.int64()),
        ]
        columns |= {f"{PREFIX}partition": places[1], f"{PREFIX}offset": places[2]}
        columns |= {
            f"{PREFIX}{name}": _OWN_VALUES[name](records) for name in options.own_columns if name in _OWN_VALUES
        }
        columns["record_key"] = hex_record_keys("", places)
        return columns, bad_rows

    def _reject(self, record: Record, reason: str, tally: Tally) -> None:
        """Set a record aside.

        :raises DataError: the options do not allow it.
        """
        where = f"topic {record.topic!r} partition {record.partition} offset {record.offset}"
        if self._options.errors_tolerance == "none":
            raise DataError(
                f"{where}: {reason}. Correct the options, or set errors_tolerance='all' to set such records aside"
            )
        if tally.counts["rejected"] >= self._options.max_rejects:
            raise DataError(f"{where}: {reason}. More than max_rejects={self._options.max_rejects} records are bad")
        if self._options.dead_letter_topic is not None:
            self.unreadable_records.append(UnreadableRecord(record, reason))
        tally.reject(Reject(record.offset, f"{where}: {reason}", record.value or b""))


def schema_of(options: KafkaOptions) -> pa.Schema:
    """Return the schema of the rows."""
    import pyarrow as pa

    instant = pa.timestamp("us", tz="UTC")
    own_fields = {
        "topic": _field("topic", pa.string(), "Topic of the record.", required=True, few_values="yes"),
        "partition": _field("partition", pa.int32(), "Partition of the record.", required=True),
        "offset": _field("offset", pa.int64(), "Offset of the record in its partition.", required=True),
        "timestamp": _field("timestamp", instant, "Time of the record: its producer's, or the broker's."),
        "headers": _field(
            "headers", pa.string(), "Headers: a JSON array of names and values.", required=True, json="checked"
        ),
    }
    fields = [_typed_field(name, kind, "key") for name, kind in options.key_columns.items()]
    if not options.key_columns:
        fields.append(_field("key", _whole_type(options.key_converter), "Key of the record."))
    if options.columns:
        fields += [_typed_field(name, kind, "value") for name, kind in options.columns.items()]
    else:
        metadata = {"json": "checked"} if options.value_converter in FIELD_CONVERTERS else {}
        metadata["comment"] = "Value of the record."
        fields.append(pa.field(VALUE_COLUMN, _whole_type(options.value_converter), metadata=metadata))
    fields.append(_field("delete", pa.bool_(), "True if the record deletes its key.", required=True))
    fields += [own_fields[name] for name in options.own_columns]
    key_comment = "Key of the record: XXH3-128 over topic id, partition and offset, 32 hex digits."
    fields.append(pa.field("record_key", pa.string(), nullable=False, metadata={"comment": key_comment}))
    return pa.schema(fields)


def _converted(data: bytes | None, read_json: ReadJson | None) -> bytes | None:
    return data if data is None or read_json is None else read_json(data)


def _field(name: str, kind: pa.DataType, comment: str, *, required: bool = False, **metadata: str) -> pa.Field:
    import pyarrow as pa

    return pa.field(f"{PREFIX}{name}", kind, nullable=not required, metadata={"comment": comment, **metadata})


def _whole_type(converter: Converter) -> pa.DataType:
    import pyarrow as pa

    return pa.binary() if converter == "bytes" else pa.string()


def _typed_field(name: str, kind: str, part: str) -> pa.Field:
    import pyarrow as pa

    metadata = {"comment": f"Field of the record's {part}."} | ({"json": "checked"} if kind == "json" else {})
    return pa.field(name, arrow_type(kind), metadata=metadata)


def _typed(texts: Sequence[bytes | None], kind: str, subject: str, bad_rows: dict[int, str]) -> pa.Array:
    column, misfits = read_column(texts, kind)
    if misfits:
        for row, text in enumerate(texts):
            if read_column([text], kind)[1]:
                bad_rows.setdefault(row, f"{subject} is no {kind}")
    return column


def _to_batch(columns: Mapping[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def _times(records: Sequence[Record]) -> pa.Array:
    import pyarrow as pa

    milliseconds = pa.array([record.timestamp_ms for record in records], pa.timestamp("ms", tz="UTC"))
    return milliseconds.cast(pa.timestamp("us", tz="UTC"))


def _headers_text(headers: Sequence[tuple[str, bytes | None]]) -> str:
    """Return headers as a JSON array of names and values. Bytes that are not UTF-8 become U+FFFD."""
    pairs = [[name, None if value is None else value.decode(errors="replace")] for name, value in headers]
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


_OWN_VALUES: dict[str, Callable[[Sequence[Record]], Any]] = {
    "topic": lambda records: [record.topic for record in records],
    "timestamp": _times,
    "headers": lambda records: [_headers_text(record.headers) for record in records],
}
"""Values of the own columns that are not part of every row's key."""
