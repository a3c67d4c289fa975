"""The shape that makes values unreadable: ``mask``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, refuse_any
from airflow_provider_connect.shapes.condition import Condition, bind_row_filter, condition_problems
from airflow_provider_connect.shapes.conversions import as_text, has_text
from airflow_provider_connect.shapes.shape import (
    ColumnNames,
    Shape,
    ShapedBatch,
    Step,
    count_values,
    key_column_problems,
    unknown_column_problems,
)
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import is_text, type_group

if TYPE_CHECKING:
    import pyarrow as pa

REDACTED = "***"
MIN_KEY_BYTES = 16
"""The shortest key. Whoever guesses it can try all ids."""
_BLOCK_BYTES = 64
MAX_CACHED_HASHES = 1 << 16
"""Texts whose hash is kept while a partition is polled: some 15 MB."""


class Mask(Shape):
    """Makes values unreadable: a keyed hash, a fixed text, or the first characters. Counts the values.

    A hash is HMAC-SHA-256 of the value's text in UTF-8, as 64 hex digits, under the password of ``conn_id``: the same
    id has the same hash in every column, table and run under the same key, be it a number or a text, so that ids join
    without being readable. NULL stays NULL. The columns become STRING.
    """

    name: ClassVar[str] = "mask"
    hides_values: ClassVar[bool] = True

    columns: ColumnNames = Field(description="The columns to mask.")
    mode: Literal["hash", "redact", "truncate"] = Field(
        default="hash",
        description="hash: HMAC-SHA-256 under the key in conn_id, 64 hex digits. redact: '***' for every value. "
        "truncate: the first keep_characters of a text.",
    )
    conn_id: str | None = Field(
        default=None, description="For hash: Airflow connection whose password is the key, of 16 bytes or more."
    )
    keep_characters: int | None = Field(default=None, ge=1, description="For truncate: how many characters stay.")
    when: Condition | None = Field(
        default=None, description="Which rows are masked; in all others the value stays, as text. By default all are."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        found = []
        for name, mode in (("conn_id", "hash"), ("keep_characters", "truncate")):
            if self.mode == mode and getattr(self, name) is None:
                found.append(f"{name}: required with mode={mode!r}")
            if self.mode != mode and getattr(self, name) is not None:
                found.append(f"{name}: belongs to mode={mode!r}")
        if found:
            raise ValueError("; ".join(found))
        return self

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """The connection with the key."""
        return (self.conn_id,) if self.conn_id is not None else ()

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with these columns as STRING; keys and comments stay.

        :raises ConfigError: there is no such column, it cannot be masked so, or the condition does not fit.
        """
        wrong = (
            unknown_column_problems(self.columns, schema)
            + key_column_problems(self.columns)
            + condition_problems(self.when, schema)
        )
        for name in self.columns:
            if name in schema.names and (why := self._problem(schema.field(name).type)):
                wrong.append(f"column {name!r}: {why}")
        refuse_any(wrong)
        return as_strings(schema, self.columns)

    def _problem(self, kind: pa.DataType) -> str | None:
        if self.mode == "truncate" and not is_text(kind):
            return f"truncate is for texts, and it is {kind}: take redact or hash"
        if self.mode == "hash" and (type_group(kind) in _WITHOUT_HASH or not has_text(kind)):
            return f"{kind} has no one text to hash: take redact, or drop the column"
        if self.when is not None and type_group(kind) in ("binary", "struct", "list", "map"):
            return f"{kind} has no text that could stay where the condition does not hold"
        return None

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what masks. The key is in it, and nowhere else.

        :raises ConfigError: the connection has no password, or a short one.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        after, rows = self.result_schema(schema), bind_row_filter(self.when, schema)
        masked_at = [schema.get_field_index(name) for name in self.columns]
        masking = self._masking(connections)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays, where, values, misfits = batch.columns, rows(batch), 0, 0
            for at in masked_at:
                array, field = arrays[at], schema.field(at)
                if where is None:
                    chosen, masked = array, masking(array, field)
                    made = masked
                else:
                    plain = without_dictionary(array)
                    chosen = pc.if_else(where, plain, pa.scalar(None, plain.type))
                    masked = masking(chosen, field)
                    made = pc.if_else(where, masked, as_text(plain, field))
                values += count_values([masked])
                misfits += count_values([chosen]) - count_values([masked])
                arrays[at] = made
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=after), values, misfits)

        return step

    def _masking(self, connections: Mapping[str, Connection]) -> Callable[[pa.Array, pa.Field], pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.mode == "redact":
            star, nothing = pa.scalar(REDACTED), pa.scalar(None, pa.string())
            return lambda array, _: pc.if_else(array.is_valid(), star, nothing)
        if self.mode == "truncate":
            most = self.keep_characters
            return lambda array, field: pc.utf8_slice_codeunits(as_text(array, field), 0, most)
        hashes = Hashes(key_of(connections[str(self.conn_id)]))
        return lambda array, field: hash_values(array, field, hashes)


_WITHOUT_HASH = ("float", "struct", "list", "map")
"""A number such as 0.1 has several texts, and the parts of a document any order."""


def key_of(connection: Connection) -> bytes:
    """Return the key in a connection.

    :raises ConfigError: it has none, or one that can be guessed.
    """
    key = connection.password.get_secret_value().encode() if connection.password else b""
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"conn_id: the password of connection {connection.conn_id!r} is the key of the hash, and has fewer than "
            f"{MIN_KEY_BYTES} bytes: set a long random one, such as that of 'openssl rand -hex 32', and never change it"
        )
    return key


class Hashes(dict[bytes, str]):
    """The hashes of texts under a key: those of the last texts are known, as a day has most ids many times."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._hash = hmac_sha256(key)

    def __missing__(self, text: bytes) -> str:
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        made = self[text] = self._hash(text)
        return made


def hash_values(array: pa.Array, field: pa.Field, hashes: Hashes) -> pa.Array:
    """Return HMAC-SHA-256 of each value's text, as hex digits. Each distinct value of the batch is looked at once."""
    import pyarrow as pa

    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    raw = coded.dictionary
    texts = raw if type_group(raw.type) == "binary" else as_text(raw, field).cast(pa.binary())
    found = [None if text is None else hashes[text] for text in texts.to_pylist()]
    return pa.array(found, pa.string()).take(coded.indices)


def hmac_sha256(key: bytes) -> Callable[[bytes], str]:
    """Return HMAC-SHA-256 (RFC 2104) under a key: :mod:`hmac`'s, at half the time, as the key is taken in once."""
    key = (key if len(key) <= _BLOCK_BYTES else hashlib.sha256(key).digest()).ljust(_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def one(text: bytes) -> str:
        begun, ended = inner.copy(), outer.copy()
        begun.update(text)
        ended.update(begun.digest())
        return ended.hexdigest()

    return one


def as_strings(schema: pa.Schema, names: ColumnNames) -> pa.Schema:
    """Return a schema with these columns as STRING, which are no JSON documents any more."""
    import pyarrow as pa

    for name in names:
        at = schema.get_field_index(name)
        field = schema.field(at)
        metadata = {key: value for key, value in (field.metadata or {}).items() if key != b"json"}
        schema = schema.set(at, pa.field(name, pa.string(), field.nullable, metadata or None))
    return schema
