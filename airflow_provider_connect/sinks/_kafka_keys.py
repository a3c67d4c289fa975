"""Keys of Kafka records, made of the key fields' columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.arrow import is_text
from airflow_provider_connect.sinks._kafka_arrays import Piece, Refused, decoded, utf8, values
from airflow_provider_connect.sinks._kafka_encoded import Encoded, checked, encoded
from airflow_provider_connect.sinks._kafka_json import Writer
from airflow_provider_connect.sinks._kafka_types import unwritable

if TYPE_CHECKING:
    import pyarrow as pa


def problems(schema: pa.Schema, fields: tuple[str, ...]) -> list[str]:
    """Name the columns that cannot be part of a key; [] when there is none."""
    import pyarrow as pa

    return [f"key_fields: {text}" for text in unwritable(pa.schema([schema.field(name) for name in fields]), "JSON")]


def keys(batch: pa.RecordBatch, fields: tuple[str, ...]) -> Encoded:
    """Return the key of each row; a row whose key cannot be written (NaN, text that is no UTF-8) is refused.

    :param fields: names of columns. One of strings is the key as it is, one of another type its JSON text; several make
        a JSON array of all of them, and none makes no key. A single field that is NULL makes no key either.
    """
    if not fields:
        return Encoded([None] * batch.num_rows, {})
    refused = Refused()
    columns = [(field, checked(batch, field, refused)) for field in (batch.schema.field(name) for name in fields)]
    if len(columns) == 1 and is_text(columns[0][0].type):
        found = values(utf8(decoded(columns[0][1]), refused.of(fields[0])))
        for row in refused.rows:
            found[row] = None
        return Encoded(found, refused.rows)
    pieces: list[Piece] = []
    for field, array in columns:
        pieces += [b",", *Writer().pieces(array, field, refused.of(field.name))]
    if len(columns) > 1:
        return encoded([b"[", *pieces[1:], b"]"], batch.num_rows, refused)
    made = encoded(pieces[1:], batch.num_rows, refused)
    valid = columns[0][1].is_valid().to_pylist()
    return Encoded([key if there else None for key, there in zip(made.values, valid, strict=True)], made.refused)
