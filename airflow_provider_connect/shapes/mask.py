"""The shape ``mask``, which makes values unreadable."""

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
_BLOCK_BYTES = 64
MAX_CACHED_HASHES = 1 << 16
"""Most hashes cached during a partition's poll: about 15 MB."""


class Mask(Shape):
    """Makes values unreadable: a keyed hash, a fixed text, or the first characters.

    A hash is HMAC-SHA-256 of the value's UTF-8 text, as 64 hex digits, under the password of ``conn_id``. Under one
    key, an id has the same hash in every column, table and run. NULL stays NULL. The columns become STRING.
    """

    name: ClassVar[str] = "mask"
    hides_values: ClassVar[bool] = True

    columns: ColumnNames = Field(description="Columns to mask.")
    mode: Literal["hash", "redact", "truncate"] = Field(
        default="hash",
        description="hash: HMAC-SHA-256 under the key in conn_id, 64 hex digits. redact: '***' for every value. "
        "truncate: the first keep_characters of a text.",
    )
    conn_id: str | None = Field(
        default=None, description="For hash: Airflow connection with the key as its password, at least 16 bytes."
    )
    keep_characters: int | None = Field(default=None, ge=1, description="For truncate: number of characters to keep.")
    when: Condition | None = Field(
        default=None, description="Rows to mask. Other rows keep the value as text. By default all rows are masked."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problems = []
        for name, mode in (("conn_id", "hash"), ("keep_characters", "truncate")):
            if self.mode == mode and getattr(self, name) is None:
                problems.append(f"{name}: required with mode={mode!r}")
            if self.mode != mode and getattr(self, name) is not None:
                problems.append(f"{name}: belongs to mode={mode!r}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def conn_ids(self) -> tuple[str, ...]:
        """The connection with the key."""
        return (self.conn_id,) if self.conn_id is not None else ()

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the masked columns as STRING."""
        problems = (
            unknown_column_problems(self.columns, schema)
            + key_column_problems(self.columns)
            + condition_problems(self.when, schema)
        )
        for name in self.columns:
            if name in schema.names and (problem := self._problem(schema.field(name).type)):
                problems.append(f"column {name!r}: {problem}")
        refuse_any(problems)
        return as_strings(schema, self.columns)

    def _problem(self, kind: pa.DataType) -> str | None:
        if self.mode == "truncate" and not is_text(kind):
            return f"truncate is for texts, but the column is {kind}: use redact or hash"
        if self.mode == "hash" and (type_group(kind) in _WITHOUT_HASH or not has_text(kind)):
            return f"{kind} has no single text to hash: use redact, or drop the column"
        if self.when is not None and type_group(kind) in ("binary", "struct", "list", "map"):
            return f"{kind} has no text to keep where the condition is not true"
        return None

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that masks, and contains the key."""
        import pyarrow as pa
        import pyarrow.compute as pc

        result_schema, rows = self.result_schema(schema), bind_row_filter(self.when, schema)
        masked_at = [schema.get_field_index(name) for name in self.columns]
        masking = self._mask_function(connections)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            arrays, is_selected, values, misfits = batch.columns, rows(batch), 0, 0
            for at in masked_at:
                array, field = arrays[at], schema.field(at)
                if is_selected is None:
                    selected_values, masked_values = array, masking(array, field)
                    result = masked_values
                else:
                    plain = without_dictionary(array)
                    selected_values = pc.if_else(is_selected, plain, pa.scalar(None, plain.type))
                    masked_values = masking(selected_values, field)
                    result = pc.if_else(is_selected, masked_values, as_text(plain, field))
                values += count_values([masked_values])
                misfits += count_values([selected_values]) - count_values([masked_values])
                arrays[at] = result
            return ShapedBatch(pa.RecordBatch.from_arrays(arrays, schema=result_schema), values, misfits)

        return step

    def _mask_function(self, connections: Mapping[str, Connection]) -> Callable[[pa.Array, pa.Field], pa.Array]:
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.mode == "redact":
            star, nothing = pa.scalar(REDACTED), pa.scalar(None, pa.string())
            return lambda array, _: pc.if_else(array.is_valid(), star, nothing)
        if self.mode == "truncate":
            max_characters = self.keep_characters
            return lambda array, field: pc.utf8_slice_codeunits(as_text(array, field), 0, max_characters)
        hashes = Hashes(key_of(connections[str(self.conn_id)]))
        return lambda array, field: hash_values(array, field, hashes)


_WITHOUT_HASH = ("float", "struct", "list", "map")
"""Types that ``hash`` refuses."""


def key_of(connection: Connection) -> bytes:
    """Return the hash key in a connection.

    :raises ConfigError: the key is missing, or short enough to guess.
    """
    key = connection.password.get_secret_value().encode() if connection.password else b""
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(
            f"conn_id: the password of connection {connection.conn_id!r} is the hash key and has fewer than "
            f"{MIN_KEY_BYTES} bytes. Set a long random one, such as the output of "
            "'openssl rand -hex 32', and never change it"
        )
    return key


class Hashes(dict[bytes, str]):
    """Cache of hashes by text, under one key."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._hash = hmac_sha256(key)

    def __missing__(self, text: bytes) -> str:
        if len(self) >= MAX_CACHED_HASHES:
            self.clear()
        hash_text = self[text] = self._hash(text)
        return hash_text


def hash_values(array: pa.Array, field: pa.Field, hashes: Hashes) -> pa.Array:
    """Return HMAC-SHA-256 of each value's text, as hex digits."""
    import pyarrow as pa

    dictionary_array = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    values = dictionary_array.dictionary
    texts = values if type_group(values.type) == "binary" else as_text(values, field).cast(pa.binary())
    hash_texts = [None if text is None else hashes[text] for text in texts.to_pylist()]
    return pa.array(hash_texts, pa.string()).take(dictionary_array.indices)


def hmac_sha256(key: bytes) -> Callable[[bytes], str]:
    """Return a function for HMAC-SHA-256 (RFC 2104), twice as fast as :mod:`hmac`."""
    key = (key if len(key) <= _BLOCK_BYTES else hashlib.sha256(key).digest()).ljust(_BLOCK_BYTES, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def hash_text(text: bytes) -> str:
        inner_hash, outer_hash = inner.copy(), outer.copy()
        inner_hash.update(text)
        outer_hash.update(inner_hash.digest())
        return outer_hash.hexdigest()

    return hash_text


def as_strings(schema: pa.Schema, names: ColumnNames) -> pa.Schema:
    """Return the schema with these columns as STRING, not as JSON documents."""
    import pyarrow as pa

    for name in names:
        at = schema.get_field_index(name)
        field = schema.field(at)
        metadata = {key: value for key, value in (field.metadata or {}).items() if key != b"json"}
        schema = schema.set(at, pa.field(name, pa.string(), field.nullable, metadata or None))
    return schema
