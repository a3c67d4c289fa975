"""The converters by name: what a record's value looks like, in Kafka Connect's words."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.values.avro.encoding import AvroConverter
from airflow_provider_connect.values.encoded import BytesConverter, Converter, StringConverter
from airflow_provider_connect.values.json.envelope import EnvelopeConverter
from airflow_provider_connect.values.json.schema import JsonSchemaConverter
from airflow_provider_connect.values.json.text import JsonConverter
from airflow_provider_connect.values.protobuf.encoding import ProtobufConverter

if TYPE_CHECKING:
    import pyarrow as pa

ConverterName = Literal["json", "json_schema_envelope", "string", "bytes", "avro", "json_schema", "protobuf"]

_CONVERTERS: dict[ConverterName, type[Converter]] = {
    "json": JsonConverter,
    "json_schema_envelope": EnvelopeConverter,
    "string": StringConverter,
    "bytes": BytesConverter,
    "avro": AvroConverter,
    "json_schema": JsonSchemaConverter,
    "protobuf": ProtobufConverter,
}


def converter(
    name: ConverterName, schema: pa.Schema, day: dt.date | None, *, record_name: str, value_field: str | None = None
) -> Converter:
    """Return the converter of that name; :meth:`.Converter.problems` tells whether it can write the schema's rows.

    :param day: the value of every record's first field, ``day``; None leaves it out, as the raw converters do.
    :param value_field: the column that is the whole value; for ``string`` and ``bytes`` alone.
    """
    return _CONVERTERS[name](schema, day, record_name, value_field)
