"""What turns rows into values: the contract of every converter.

Here are also the words, the same for every language, for rows that cannot be written and for schemas that do not fit.
"""

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
"""The languages of schemas, as a Schema Registry calls them."""

DAY = "day"
"""First field of every structured value."""


@dataclass(frozen=True)
class SchemaRef:
    """A schema as the registry knows it.

    :param id: what stands in front of every value; unique in the registry.
    :param document: the registered text, where it differs from the converter's own and values must follow it.
    """

    subject: str
    id: int
    version: int
    document: str | None = None


@dataclass(frozen=True)
class EncodedBatch:
    """The values of a batch.

    :param values: one for each row; None for a row without a value, and for one that was refused.
    :param refused: why rows cannot be written: the row's index, then column and reason, without a value of theirs.
    """

    values: list[bytes | None]
    refused: dict[int, tuple[str, str]]


class Converter(ABC):
    """Turns Arrow batches into values, for one day and one schema. Cheap to make; uses no network.

    :param schema: the source's; other columns of a batch are ignored.
    :param day: first field of every structured value; None leaves it out.
    :param record_name: full name of the record, for the languages that need one: legal words, joined by dots.
    :param value_field: the column that is the whole value; for the raw converters alone, which need it.
    """

    kind: ClassVar[SchemaLanguage | None] = None
    format_name: ClassVar[str]
    """What values are written as, for messages."""

    def __init__(
        self, schema: pa.Schema, day: dt.date | None, record_name: str, value_field: str | None = None
    ) -> None:
        self.schema = schema
        self.day = day
        self.record_name = record_name
        self.value_field = value_field

    def problems(self) -> list[str]:
        """Name every column that this converter cannot write, with what to do; [] when there are none."""
        found = unwritable_columns(self.schema, self.format_name)
        if self.day is not None and DAY in self.schema.names:
            doubled = f"column {DAY!r} has the name of the field that holds the record's day: rename it in the source"
            found.insert(0, doubled)
        return found

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> EncodedBatch:
        """Return a value for each row of ``batch``.

        :param ref: the registered schema; None where :attr:`document` is None.
        """
        refused = RefusedRows()
        values: list[bytes | None] = self.encode_array(batch, ref, refused).to_numpy(zero_copy_only=False).tolist()
        for row in refused.rows:
            values[row] = None
        return EncodedBatch(values, refused.rows)

    def encode_array(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> pa.Array:
        """Return each row's value (``large_binary``); what stands in refused rows does not matter."""
        return join_pieces(self.pieces(batch, ref, refused), batch.num_rows)

    @abstractmethod
    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the pieces of the rows' values, and note the rows that cannot be written."""

    @cached_property
    def document(self) -> str | None:
        """The schema to register, None where values carry no reference to one."""
        return None


def registry_prefix(ref: SchemaRef | None) -> bytes:
    """Return what a Schema Registry wants before every value: 0 and the schema's id, big-endian in four bytes.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/ (wire format; 2026-11)

    :raises TypeError: there is no id; a value without one could never be read.
    """
    if ref is None:
        raise TypeError("a converter with a schema needs the id that it was registered under")
    return b"\0" + ref.id.to_bytes(4, "big")


def missing_field(field_path: str) -> str:
    """Say that the registered schema lacks a field of ours."""
    return f"{field_path}: not in the registered schema"


def differing_type(field_path: str, own_type: str, registered_type: str) -> str:
    """Say that a field is of another type."""
    return f"{field_path}: {own_type} here, {registered_type} in the registered schema"


def required_field(field_path: str, source_state: str = "has no such column") -> str:
    """Say that the registered schema wants a field that the source does not always have."""
    return f"{field_path}: the registered schema wants a value, and the source {source_state}"


class StringConverter(Converter):
    """The UTF-8 text of one string column; a NULL has no value."""

    format_name = "strings"
    is_only_text: ClassVar[bool] = True

    def problems(self) -> list[str]:
        """Say what is wrong with the column."""
        kind = self.schema.field(self.value_field).type
        if is_text(kind) or (type_group(kind) == "binary" and not self.is_only_text):
            return []
        return [
            f"value_field: column {self.value_field!r} is {kind}; this converter writes {self.format_name}: use json"
        ]

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the column; its NULLs are still there."""
        array, refuse = refused.read_column(batch, self.schema.field(self.value_field))
        return [as_utf8(array, refuse) if self.is_only_text else as_binary(array)]

    def encode_array(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> pa.Array:
        """Return the column as it is: a value that is NULL is none, and not an empty one."""
        (column,) = self.pieces(batch, ref, refused)
        return column


class BytesConverter(StringConverter):
    """The bytes of one binary or string column; a NULL has no value."""

    format_name = "bytes or strings"
    is_only_text = False
