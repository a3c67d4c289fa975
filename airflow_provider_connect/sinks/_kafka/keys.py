"""Keys of Kafka records, made of the key fields' columns: a text, or a record of them.

The same row must get the same bytes in every run, else a tombstone buries nothing and compaction keeps both. So no key
depends on the day, and one with a schema is always written by the same registered schema: see
:meth:`.registry.Registry.for_keys`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.sinks._kafka.converters import Converter, SchemaRef, converter
from airflow_provider_connect.values.arrays import Piece, Refused, as_utf8, without_dictionary
from airflow_provider_connect.values.arrow import is_text, unwritable
from airflow_provider_connect.values.encoded import Encoded, column_of
from airflow_provider_connect.values.json.text import Writer

if TYPE_CHECKING:
    import pyarrow as pa


KeyConverterName = Literal["string", "json", "avro", "json_schema", "protobuf"]


class Keys:
    """Makes the keys of one sink's records.

    :param name: ``string`` as :func:`keys` has it; the others make a record of the fields, by the value converter of
        that name. A single field that is NULL makes no key.
    :param record_name: full name of the record.
    """

    def __init__(self, name: KeyConverterName, schema: pa.Schema, fields: tuple[str, ...], record_name: str) -> None:
        import pyarrow as pa

        self.fields = fields
        own = [schema.field(field) for field in fields]
        if len(own) == 1:
            own = [own[0].with_nullable(nullable=False)]  # whatever the source says: so the schema stays the same
        self._schema = pa.schema(own)
        self.converter: Converter | None = None
        if name != "string" and fields:
            self.converter = converter(name, self._schema, None, record_name=record_name)

    def problems(self) -> list[str]:
        """Name the columns that cannot be part of a key; [] when there is none."""
        found = unwritable(self._schema, "JSON") if self.converter is None else self.converter.problems()
        return [f"key_fields: {text}" for text in found]

    def encode(self, batch: pa.RecordBatch, ref: SchemaRef | None) -> Encoded:
        """Return the key of each row; a row whose key cannot be written is refused.

        :param ref: the registered schema; None where the converter has none.
        """
        if self.converter is None:
            return keys(batch, self.fields)
        if len(self.fields) > 1 or not batch.column(self.fields[0]).null_count:
            return self.converter.encode(batch, ref)
        there = batch.column(self.fields[0]).is_valid()
        rows = [row for row, valid in enumerate(there.to_pylist()) if valid]
        some = self.converter.encode(batch.filter(there), ref)
        found: list[bytes | None] = [None] * batch.num_rows
        for row, value in zip(rows, some.values, strict=True):
            found[row] = value
        return Encoded(found, {rows[place]: why for place, why in some.refused.items()})


def keys(batch: pa.RecordBatch, fields: tuple[str, ...]) -> Encoded:
    """Return the key of each row; a row whose key cannot be written (NaN, text that is not UTF-8) is refused.

    :param fields: names of columns. One of strings is the key as it is, one of another type its JSON text; several make
        a JSON array of all of them, and none makes no key. A single field that is NULL makes no key either.
    """
    if not fields:
        return Encoded([None] * batch.num_rows, {})
    refused = Refused()
    columns = [(field, column_of(batch, field, refused)) for field in (batch.schema.field(name) for name in fields)]
    if len(columns) == 1 and is_text(columns[0][0].type):
        texts = as_utf8(without_dictionary(columns[0][1]), refused.in_column(fields[0]))
        return Encoded.from_array(texts, refused)
    pieces: list[Piece] = []
    for field, array in columns:
        pieces += [b",", *Writer().pieces(array, field, refused.in_column(field.name))]
    if len(columns) > 1:
        return Encoded.from_pieces([b"[", *pieces[1:], b"]"], batch.num_rows, refused)
    made = Encoded.from_pieces(pieces[1:], batch.num_rows, refused)
    valid = columns[0][1].is_valid().to_pylist()
    return Encoded([key if there else None for key, there in zip(made.values, valid, strict=True)], made.refused)
