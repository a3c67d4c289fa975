"""The converters by name: what a record's value looks like, in Kafka Connect's words."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal, get_args

from airflow_provider_connect.values.avro.encoding import AvroConverter
from airflow_provider_connect.values.encoded import DAY, Converter, Encoded, Kind, SchemaRef
from airflow_provider_connect.values.json.envelope import EnvelopeConverter
from airflow_provider_connect.values.json.schema import JsonSchemaConverter
from airflow_provider_connect.values.json.text import JsonConverter
from airflow_provider_connect.values.protobuf.encoding import ProtobufConverter
from airflow_provider_connect.values.raw import BytesConverter, StringConverter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Converter", "ConverterName", "Encoded", "Kind", "SchemaRef", "converter", "problems"]

ConverterName = Literal["json", "json_schema_envelope", "string", "bytes", "avro", "json_schema", "protobuf"]

_STRUCTURED: dict[str, type[Converter]] = {
    "json": JsonConverter,
    "json_schema_envelope": EnvelopeConverter,
    "avro": AvroConverter,
    "json_schema": JsonSchemaConverter,
    "protobuf": ProtobufConverter,
}
_RAW = {"string": StringConverter, "bytes": BytesConverter}


def converter(
    name: str, schema: pa.Schema, day: dt.date | None, *, record_name: str, value_field: str | None = None
) -> Converter:
    """Return the converter of that name.

    :param schema: the source's; see :func:`problems` for what must hold.
    :param day: the value of every record's first field, ``day``; None leaves it out, as the raw converters do.
    :param record_name: full name of the record: words of letters, digits and ``_``, joined by dots.
    :param value_field: the column that is the whole value; for ``string`` and ``bytes`` alone.
    """
    if name in _RAW:
        return _RAW[name](schema, day, record_name, value_field)
    return _STRUCTURED[name](schema, day, record_name)


def problems(name: str, schema: pa.Schema, *, record_name: str, value_field: str | None = None) -> list[str]:
    """Say why rows of a schema cannot become values, each with what to do; [] when they can."""
    if name not in get_args(ConverterName):
        return [f"there is no converter {name!r}: use one of {', '.join(get_args(ConverterName))}"]
    found = []
    if name not in _RAW:
        if value_field is not None:
            found.append(f"value_field is for the converters {' and '.join(_RAW)}; {name} writes all columns: drop it")
        if DAY in schema.names:
            found.append(
                f"column {DAY!r} has the name of the field that holds the record's day: rename it in the source"
            )
    made = converter(name, schema, dt.date(2000, 1, 1), record_name=record_name, value_field=value_field)
    return found + made.problems()
