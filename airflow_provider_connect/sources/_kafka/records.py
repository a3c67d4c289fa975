"""One record of a topic, and the fields of its key and value. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from airflow_provider_connect.sources._kafka.options import Envelope

_DEBEZIUM_ROWS = {"c": "after", "r": "after", "u": "after", "d": "before"}
"""Field with the row of each operation: https://debezium.io/documentation/reference/stable/connectors/postgresql.html
(2026-11). Truncations (t) and messages (m) have no row."""


_ENVELOPE_FIELDS = ("schema", "payload")
_CHANGE_FIELDS = ("op", "before", "after")


class Record(NamedTuple):
    """A record as the broker has it.

    :param timestamp_ms: milliseconds since 1970, or None.
    """

    topic: str
    identity: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class BadRecordError(ValueError):
    """A record that cannot be read. The text is the reason, without the record's values."""


class Fields(NamedTuple):
    """The fields of a record's value, as JSON text, and whether the record deletes its key.

    :param is_row: False for a record that changes no row, such as the truncation of a table.
    """

    values: Mapping[str, bytes]
    is_delete: bool = False
    is_row: bool = True


def value_fields(
    value: bytes | None, envelope: Envelope, names: Collection[str], *, has_key_fields: bool = False
) -> Fields:
    """Return the fields of a JSON value. A record without a value deletes its key.

    :param names: the fields to return.
    :param has_key_fields: True if the row names its key without the value. Then Debezium's tombstones are rows as well:
        compaction may have removed the delete before one.
    :raises BadRecordError: the value has another form.
    """
    tombstone = Fields({}, is_delete=True, is_row=envelope != "debezium" or has_key_fields)
    if value is None:
        return tombstone
    if envelope == "none":
        return Fields(_object(value, "value", names))
    fields = _object(value, "value", _ENVELOPE_FIELDS)
    payload = fields.get("payload") if "schema" in fields or envelope == "connect" else value
    if payload is None:
        raise BadRecordError("the value has no payload")
    if payload == b"null":
        return tombstone
    if envelope == "connect":
        return Fields(_object(payload, "value's payload", names))
    return _changed_row(_object(payload, "value's payload", _CHANGE_FIELDS), names)


def key_fields(key: bytes | None, envelope: Envelope, names: Collection[str]) -> Mapping[str, bytes]:
    """Return the fields of a JSON key.

    :param names: the fields to return.
    :raises BadRecordError: the key is missing or has another form.
    """
    if key is None:
        raise BadRecordError("the record has no key")
    fields = _object(key, "key", {*names, *_ENVELOPE_FIELDS})
    if envelope != "none" and fields.keys() >= {*_ENVELOPE_FIELDS}:
        return _object(fields["payload"], "key's payload", names)
    return fields


def text_of(data: bytes | None, part: str) -> str | None:
    """Return UTF-8 text.

    :raises BadRecordError: the bytes are not UTF-8.
    """
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadRecordError(f"the {part} is not UTF-8") from None


def json_text(data: bytes | None) -> str | None:
    """Return a JSON value as text.

    :raises BadRecordError: the bytes are no JSON.
    """
    import msgspec

    if data is None:
        return None
    try:
        msgspec.json.decode(data)  # also the UTF-8 of texts
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRecordError("the value is no JSON") from None
    return text_of(data, "value")


def _changed_row(fields: Mapping[str, bytes], names: Collection[str]) -> Fields:
    operation = fields.get("op", b"").strip(b'"').decode(errors="replace")
    if operation in ("t", "m"):
        return Fields({}, is_row=False)
    if operation not in _DEBEZIUM_ROWS:
        raise BadRecordError("the value has no operation of Debezium in op")
    row = fields.get(_DEBEZIUM_ROWS[operation], b"null")
    if row == b"null":
        if operation == "d":  # a table whose replica identity leaves the old row out
            return Fields({}, is_delete=True)
        raise BadRecordError(f"the value has no {_DEBEZIUM_ROWS[operation]}")
    return Fields(_object(row, f"value's {_DEBEZIUM_ROWS[operation]}", names), is_delete=operation == "d")


def _object(data: bytes, part: str, names: Collection[str]) -> dict[str, bytes]:
    import msgspec

    try:
        data.decode()  # the decoder of parts leaves texts as they are
        raw: dict[str, Any] = _decoder().decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        raise BadRecordError(f"the {part} is no JSON object") from None
    return {name: bytes(raw[name]) for name in names if name in raw}


@lru_cache(1)
def _decoder() -> Any:
    import msgspec

    return msgspec.json.Decoder(dict[str, msgspec.Raw])
