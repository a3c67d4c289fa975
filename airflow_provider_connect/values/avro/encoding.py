"""Avro's binary encoding of Arrow columns: the ``avro`` converter."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.values import times
from airflow_provider_connect.values.arrays import (
    Piece,
    Refuse,
    RefusedRows,
    as_binary,
    as_numbers,
    as_utf8,
    join_by_row,
    join_pieces,
    keys_and_items,
    pieces_or_null,
    refuse_by_element,
    without_dictionary,
)
from airflow_provider_connect.values.arrow import TypeGroup, is_text, lengths_and_elements, true_rows, type_group
from airflow_provider_connect.values.avro import schema as avro
from airflow_provider_connect.values.converters import DAY, Converter, SchemaLanguage, SchemaRef, registry_prefix
from airflow_provider_connect.values.names import children_by_legal_name, legal_name
from airflow_provider_connect.values.numbers import (
    big_endian,
    decimal_digits,
    length_prefixed,
    little_endian,
    width_bytes,
    zigzag,
    zigzags,
)

if TYPE_CHECKING:
    import pyarrow as pa

_END = zigzag(0)  # of the blocks of an array or a map


class AvroConverter(Converter):
    """Avro records with logical types, each after the id of its schema."""

    kind: ClassVar[SchemaLanguage | None] = "AVRO"
    format_name = "Avro"

    @cached_property
    def document(self) -> str:
        """Avro schema as JSON."""
        return avro.document(self.schema, self.record_name, self.day)

    def pieces(self, batch: pa.RecordBatch, ref: SchemaRef | None, refused: RefusedRows) -> list[Piece]:
        """Return the schema's id and each row as a record of the registered schema."""
        pieces: list[Piece] = [registry_prefix(ref)]
        record = json.loads((ref and ref.document) or self.document)
        writer = _Writer(avro.named_types(record))
        fields_by_name = {legal_name(field.name): field for field in self.schema}
        for part in record["fields"]:
            name, kind = part["name"], part["type"]
            if name == DAY and self.day is not None:
                pieces += writer.constant(self.day.toordinal() - times.EPOCH_ORDINAL, kind)
            elif name in fields_by_name:
                array, refuse = refused.read_column(batch, fields_by_name[name])
                pieces += writer.pieces(array, kind, refuse)
            else:
                pieces += writer.nothing(kind)
        return pieces


class _Writer:
    """Writes columns by a schema without :func:`.avro.schema.misfits`."""

    def __init__(self, names: dict[str, avro.Avro]) -> None:
        self.names = names

    def constant(self, number: int, kind: avro.Avro) -> list[Piece]:
        _, null, type_index = avro.without_null(kind, self.names)
        return [(b"" if null is None else zigzag(type_index)) + zigzag(number)]

    def nothing(self, kind: avro.Avro) -> list[Piece]:
        return [zigzag(avro.without_null(kind, self.names)[1] or 0)]

    def pieces(self, array: pa.Array, kind: avro.Avro, refuse: Refuse) -> list[Piece]:
        array = without_dictionary(array)
        plain, null, type_index = avro.without_null(kind, self.names)
        body = self._value(array, plain, refuse)
        if null is not None:
            return pieces_or_null(array, body, zigzag(type_index), zigzag(null))
        if array.null_count:
            refuse(true_rows(array.is_null()), "NULL, which the registered schema does not take")
        return [zigzag(type_index), *body] if isinstance(kind, list) else body

    def _value(self, array: pa.Array, kind: Any, refuse: Refuse) -> list[Piece]:
        shape = type_group(array.type)
        if shape == "struct":
            return self._record(array, kind, refuse)
        if shape == "map":
            return self._map(array, kind, refuse)
        if shape == "list":
            lengths, elements = lengths_and_elements(array)
            inner = self.pieces(elements, kind["items"], refuse_by_element(refuse, lengths))
            return _blocks(lengths, join_pieces(inner, len(elements)))
        return _leaf(array, shape, refuse)

    def _record(self, array: pa.StructArray, kind: Any, refuse: Refuse) -> list[Piece]:
        columns_by_name = children_by_legal_name(array)
        pieces: list[Piece] = []
        for part in kind["fields"]:
            is_known = part["name"] in columns_by_name
            pieces += (
                self.pieces(columns_by_name[part["name"]], part["type"], refuse)
                if is_known
                else self.nothing(part["type"])
            )
        return pieces

    def _map(self, array: pa.MapArray, kind: Any, refuse: Refuse) -> list[Piece]:
        lengths, keys, items, inner = keys_and_items(array, refuse)
        if is_text(array.type.key_type):
            pieces = [*_leaf(without_dictionary(keys), "text", inner), *self.pieces(items, kind["values"], inner)]
        else:
            entry: Any = avro.without_null(kind["items"], self.names)[0]
            types = {part["name"]: part["type"] for part in entry["fields"]}
            pieces = [*self.pieces(keys, types["key"], inner), *self.pieces(items, types["value"], inner)]
        return _blocks(lengths, join_pieces(pieces, len(keys)))


def _blocks(lengths: Any, elements: pa.Array) -> list[Piece]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = zigzags(lengths)
    empty = pa.array(np.asarray(lengths) == 0)
    counts = pc.if_else(empty, pa.scalar(b"", counts.type), counts)
    return [counts, join_by_row(elements, lengths, b""), _END]


def _leaf(array: pa.Array, shape: TypeGroup | None, refuse: Refuse) -> list[Piece]:
    if shape == "null":
        return []
    if shape == "text":
        return length_prefixed(as_utf8(array, refuse), signed=True)
    if shape == "binary":
        return length_prefixed(as_binary(array), signed=True)
    if shape in times.TIME_GROUPS:
        return [zigzags(times.whole_numbers(array, refuse))]
    if decimal_digits(array.type) is not None:
        return [zigzag(width_bytes(array.type)), big_endian(array)]
    numbers = as_numbers(array)
    return [zigzags(numbers) if shape == "integer" else little_endian(numbers)]
