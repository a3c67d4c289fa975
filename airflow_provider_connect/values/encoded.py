"""What turns rows into values: the contract of every converter.

Here are also the words, the same for every language, for rows that cannot be written and for schemas that do not fit.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from airflow_provider_connect.values.arrays import Piece, Refused, bytes_list, join
from airflow_provider_connect.values.arrow import unwritable
from airflow_provider_connect.values.names import name_problems

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
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
class Encoded:
    """The values of a batch.

    :param values: one for each row; None for a row without a value, and for one that was refused.
    :param refused: why rows cannot be written: the row's index, then column and reason, without a value of theirs.
    """

    values: list[bytes | None]
    refused: dict[int, tuple[str, str]]

    @classmethod
    def from_pieces(cls, pieces: Sequence[Piece], rows: int, refused: Refused) -> Encoded:
        """Join pieces to values."""
        return cls.from_array(join(pieces, rows), refused)

    @classmethod
    def from_array(cls, array: pa.Array, refused: Refused) -> Encoded:
        """Take binaries as values; a row that was refused has none."""
        found = bytes_list(array)
        for row in refused.rows:
            found[row] = None
        return cls(found, refused.rows)


class Converter(ABC):
    """Turns Arrow batches into values, for one day and one schema. Cheap to make; uses no network.

    :param schema: the source's; other columns of a batch are ignored.
    :param day: first field of every structured value; None leaves it out.
    :param record_name: full name of the record, for the languages that need one.
    """

    kind: ClassVar[Kind | None] = None
    form: ClassVar[str]
    """What values are written as, for messages."""
    is_named: ClassVar[bool] = True
    """Whether values need a record's name."""

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str) -> None:
        self.schema = schema
        self.day = day
        self.record_name = record_name

    def problems(self) -> list[str]:
        """Name every column that this converter cannot write, with what to do; [] when there are none."""
        return (name_problems(self.record_name) if self.is_named else []) + unwritable(self.schema, self.form)

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return a value for each row of ``batch``.

        :param ref: the registered schema; None where :meth:`document` is None.
        """
        refused = Refused()
        return Encoded.from_pieces(self.pieces(batch, ref, refused), batch.num_rows, refused)

    @abstractmethod
    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: Refused) -> list[Piece]:
        """Return the pieces of the rows' values, and note the rows that cannot be written."""

    def document(self) -> str | None:
        """Return the schema to register, None where values carry no reference to one."""
        return self.schema_text

    @cached_property
    def schema_text(self) -> str | None:
        """The schema, made once."""
        return None


def frame(ref: SchemaRef | None) -> bytes:
    """Return what a Schema Registry wants before every value: 0 and the schema's id, big-endian in four bytes.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/ (wire format; 2026-11)

    :raises TypeError: there is no id; a value without one could never be read.
    """
    if ref is None:
        raise TypeError("a converter with a schema needs the id that it was registered under")
    return b"\0" + ref.id.to_bytes(4, "big")


def column_of(batch: pa.RecordBatch, field: pa.Field, refused: Refused) -> pa.Array:
    """Return a field's column; rows are refused whose value is NULL where the schema rules that out."""
    array = batch.column(field.name)
    if not field.nullable and array.null_count:
        refused.in_column(field.name)(array.is_null(), "NULL, though the source's schema says that there is none")
    return array


def missing(where: str) -> str:
    """Say that the registered schema lacks a field of ours."""
    return f"{where}: not in the registered schema"


def differing(where: str, own: str, registered: str) -> str:
    """Say that a field is of another type."""
    return f"{where}: {own} here, {registered} in the registered schema"


def wanted(where: str, source: str = "has no such column") -> str:
    """Say that the registered schema wants a field that the source does not always have."""
    return f"{where}: the registered schema wants a value, and the source {source}"
