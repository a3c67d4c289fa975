"""What turns rows into the values of Kafka records: the contract of every converter, and the wire format they share."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from airflow_provider_connect.values.arrays import Piece, Refused, join, values

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["AVRO", "JSON", "PROTOBUF"]
"""What a Schema Registry calls the three languages of its schemas."""

DAY = "day"
"""First field of every structured value."""


@dataclass(frozen=True)
class SchemaRef:
    """A schema as the registry knows it.

    :param id: what stands in front of every value; unique in the registry.
    :param document: the registered text where the values must be written by it, as it differs from the converter's own.
    """

    subject: str
    id: int
    version: int
    document: str | None = None


@dataclass(frozen=True)
class Encoded:
    """The values of a batch.

    :param values: one for each row; None stands for a record without a value, and for a row that was refused.
    :param refused: why rows cannot be written: the row's index, then column and reason, without a value of theirs.
    """

    values: list[bytes | None]
    refused: dict[int, tuple[str, str]]


class Converter(ABC):
    """Makes record values of Arrow batches, for one day and one schema. Cheap to make; knows no network.

    :param schema: the source's; batches have its columns, others beside them are ignored.
    :param day: first field of every structured value; None leaves it out.
    :param record_name: full name of the record, for the languages that need one.
    """

    kind: ClassVar[Kind | None] = None

    def __init__(self, schema: pa.Schema, day: dt.date | None, record_name: str) -> None:
        self.schema = schema
        self.day = day
        self.record_name = record_name

    @abstractmethod
    def problems(self) -> list[str]:
        """Name every column that this converter has no place for, with what to do; [] when there is none."""

    @abstractmethod
    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return a value for each row of ``batch``.

        :param ref: the registered schema; None where :meth:`document` is None.
        """

    def document(self) -> str | None:
        """Return the schema to register, None where values carry no reference to one."""
        return None


def framed(ref: SchemaRef | None) -> bytes:
    """Return what stands before every value: 0 and the schema's id, four bytes, the highest first.

    https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/ (wire format; 2026-11)

    :raises TypeError: there is no id; a value without one could never be read.
    """
    if ref is None:
        raise TypeError("a converter with a schema needs the id that it was registered under")
    return b"\0" + ref.id.to_bytes(4, "big")


def checked(batch: pa.RecordBatch, field: pa.Field, refused: Refused) -> pa.Array:
    """Return the column of a field; rows are refused whose value is NULL where the schema rules that out."""
    array = batch.column(field.name)
    if not field.nullable and array.null_count:
        refused.of(field.name)(array.is_null(), "NULL, though the source's schema says that there is none")
    return array


def encoded(pieces: list[Piece], rows: int, refused: Refused) -> Encoded:
    """Join pieces to values; a row that was refused has none."""
    found = values(join(pieces, rows))
    for row in refused.rows:
        found[row] = None
    return Encoded(found, refused.rows)
