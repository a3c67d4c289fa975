"""The contract of converters, which turn rows into values, and their common messages."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from airflow_provider_connect.values.arrays import Piece, RefusedRows, as_binary, as_utf8, join_pieces
from airflow_provider_connect.values.arrow import is_text, type_group, unwritable_columns

if TYPE_CHECKING:
    import pyarrow as pa

SchemaLanguage = Literal["AVRO", "JSON", "PROTOBUF"]
"""Schema languages, as a Schema Registry names them."""

DAY = "day"
"""First field of every structured value."""


@dataclass(frozen=True)
class SchemaRef:
    """A registered schema.

    :param id: prefix of every value.
    :param document: the registered text, if values must follow it.
    """

    subject: str
    id: int
    version: int
    document: str | None = None


@dataclass(frozen=True)
class EncodedBatch:
    """Values of a batch.

    :param refused: column and reason by row index.
    """

    values: list[bytes | None]
    refused: dict[int, tuple[str, str]]


class Converter(ABC):
    """Converter of Arrow batches into values, for one day and one schema. Cheap to create, without network.

    :param schema: the source's schema. Other columns of a batch are ignored.
    :param day: first field of every structured value, or None to leave it out.
    :param record_name: full name of the record.
    :param value_field: the column that is the entire value.
    """

    kind: ClassVar[SchemaLanguage | None] = None
    format_name: ClassVar[str]
    """Name of the format, for messages."""

    def __init__(
        self, schema: pa.Schema, day: dt.date | None, record_name: str, value_field: str | None = None
    ) -> None:
        self.schema = schema
        self.day = day
        self.record_name = record_name
        self.value_field = value_field

    def problems(self) -> list[str]:
        """Return a problem, with its remedy, for each column that cannot be written."""
        problems = unwritable_columns(self.schema, self.format_name)
        if self.day is not None and DAY in self.schema.names:
            doubled = f"column {DAY!r} has the name of the field that holds the record's day: rename it in the source"
            problems.insert(0, doubled)
        return problems

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> EncodedBatch:
        """Return a value for each row of ``batch``.

        :param ref: the registered schema, or None if :attr:`document` is None.
        """
        refused = RefusedRows()
        values: list[bytes | None] = self.encode_array(batch, ref, refused).to_numpy(zero_copy_only=False).tolist()
        for row in refused.rows:
            values[row] = None
        return EncodedBatch(values, refused.rows)

    def encode_array(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> pa.Array:
        """Return each row's value (``large_binary``). Values of refused rows are undefined."""
        return join_pieces(self.pieces(batch, ref, refused), batch.num_rows)

    @abstractmethod
    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the pieces of the rows' values. Adds rows that cannot be written to ``refused``."""

    @cached_property
    def document(self) -> str | None:
        """Schema to register, or None if values refer to no schema."""
        return None


def registry_prefix(ref: SchemaRef | None) -> bytes:
    """Return the prefix that a Schema Registry requires: 0 and the schema's id, big-endian in four bytes.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/ (wire format; 2026-11)

    :raises TypeError: there is no schema.
    """
    if ref is None:
        raise TypeError("a converter with a schema needs the id that it was registered under")
    return b"\0" + ref.id.to_bytes(4, "big")


def missing_field(field_path: str) -> str:
    """Return the message about a field that the registered schema lacks."""
    return f"{field_path}: not in the registered schema"


def differing_type(field_path: str, own_type: str, registered_type: str) -> str:
    """Return the message about a field with another registered type."""
    return f"{field_path}: {own_type} here, {registered_type} in the registered schema"


def required_field(field_path: str, source_state: str = "has no such column") -> str:
    """Return the message about a registered field that the source may lack."""
    return f"{field_path}: the registered schema requires a value, but the source {source_state}"


class StringConverter(Converter):
    """UTF-8 text of one string column. NULL has no value."""

    format_name = "strings"
    is_only_text: ClassVar[bool] = True

    def problems(self) -> list[str]:
        """Return the column's problem, if any."""
        kind = self.schema.field(self.value_field).type
        if is_text(kind) or (type_group(kind) == "binary" and not self.is_only_text):
            return []
        return [
            f"value_field: column {self.value_field!r} is {kind}, but this converter writes {self.format_name}: "
            "use json"
        ]

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the column, including its NULLs."""
        array, refuse = refused.read_column(batch, self.schema.field(self.value_field))
        return [as_utf8(array, refuse) if self.is_only_text else as_binary(array)]

    def encode_array(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> pa.Array:
        """Return the column unchanged. NULL stays NULL."""
        (column,) = self.pieces(batch, ref, refused)
        return column


class BytesConverter(StringConverter):
    """Bytes of one binary or string column."""

    format_name = "bytes or strings"
    is_only_text = False
