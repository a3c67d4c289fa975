"""Java agrees: Kafka's own clients would choose the same partitions, and Connect's own converter reads our values."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.sinks._kafka.converters import KeyEncoder, make_converter
from airflow_provider_connect.values.converters import SchemaRef
from tests.equipment.kafka.bench import make_topic
from tests.equipment.kafka.fixtures import KafkaBroker, records

pytestmark = pytest.mark.slow

DAY = dt.date(2026, 10, 5)
NOON = dt.datetime(2026, 10, 5, 12, 0, 0, 123_000, tzinfo=dt.UTC)
ROW: dict[str, Any] = {
    "flag": True,
    "small": -128,
    "whole": 2**63 - 1,
    "wide": 2**32 - 1,
    "ratio": 0.1,
    "text": 'a "quoted" ü\n\u2028',
    "raw": b"\x00\xff",
    "amount": Decimal("-12.34"),
    "at": NOON,
    "date": dt.date(1969, 12, 31),
    "time": dt.time(23, 59, 59, 999_000),
    "tags": ["a", None],
    "counts": {"x": 1, "y": None},
    "inner": {"a": 1, "b": None},
    "none": None,
}
SCHEMA = pa.schema(
    [
        pa.field("flag", pa.bool_()),
        pa.field("small", pa.int8(), nullable=False),
        pa.field("whole", pa.int64()),
        pa.field("wide", pa.uint32()),
        pa.field("ratio", pa.float64()),
        pa.field("text", pa.string(), nullable=False),
        pa.field("raw", pa.binary()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("date", pa.date32()),
        pa.field("time", pa.time64("us")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("inner", pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())])),
        pa.field("none", pa.string()),
    ]
)


def test_a_java_client_would_choose_the_same_partition(
    kafka_java: Any, broker: KafkaBroker, kafka_connection: Connection
) -> None:
    chance = random.Random(7)
    keys = {chance.randbytes(chance.randrange(0, 40)) for _ in range(500)} | {b"", "schlüssel".encode()}
    topic = "agreed-with-java"
    make_topic(broker.bootstrap, topic, 7)
    outbox = AcknowledgedOutbox(kafka_connection, 20, {"partitioner": "murmur2_random"})
    for key in keys:
        outbox.send(topic, key, b"value", [])
    outbox.flush()
    choice = kafka_java.org.apache.kafka.clients.producer.internals.BuiltInPartitioner
    found = {record.key: record.partition for record in records(broker.bootstrap, topic)}
    assert found == {key: choice.partitionForKey(key, 7) for key in keys}
    assert len(set(found.values())) == 7


def value_of(name: str) -> bytes:
    cells = {f.name: list(ROW[f.name].items()) if pa.types.is_map(f.type) else ROW[f.name] for f in SCHEMA}
    batch = pa.record_batch([pa.array([cells[f.name]], f.type) for f in SCHEMA], schema=SCHEMA)
    made = make_converter(name, SCHEMA, DAY, record_name="com.example.Event")
    (value,) = made.encode(batch, None).values
    assert value is not None
    return value


def listed(found: Any) -> list[Any]:
    """Return a Java list's items; py4j's own way through it ends with an error, which pyspark takes for one."""
    return [found.get(index) for index in range(found.size())]


def json_converter(kafka_java: Any, **settings: str) -> Any:
    made = kafka_java.org.apache.kafka.connect.json.JsonConverter()
    made.configure({name.replace("_", "."): value for name, value in settings.items()}, False)
    return made


def test_connects_own_converter_reads_the_envelope(kafka_java: Any) -> None:
    read = json_converter(kafka_java, schemas_enable="true").toConnectData("t", value_of("json_schema_envelope"))
    assert read.schema().name() == "com.example.Event"
    assert [field.name() for field in listed(read.schema().fields())] == ["day", *SCHEMA.names]
    required = [field.name() for field in listed(read.schema().fields()) if not field.schema().isOptional()]
    assert required == ["day", "small", "text"]
    row = read.value()
    read.value().validate()
    plain = ("flag", "small", "whole", "wide", "ratio", "text", "none")
    assert {name: row.get(name) for name in plain} == {name: ROW[name] for name in plain}
    assert (row.get("raw"), row.get("amount")) == (ROW["raw"], ROW["amount"])
    assert row.get("at").getTime() == NOON.timestamp() * 1000
    assert row.get("day").getTime() == 86_400_000 * (DAY - dt.date(1970, 1, 1)).days
    assert row.get("date").getTime() == -86_400_000
    assert row.get("time").getTime() == 86_399_999
    assert listed(row.get("tags")) == ["a", None]
    counts = row.get("counts")
    assert (counts.size(), counts.get("x"), counts.get("y")) == (2, 1, None)
    assert (row.get("inner").get("a"), row.get("inner").get("b")) == (1, None)


def test_connects_own_converter_reads_plain_json(kafka_java: Any) -> None:
    row = json_converter(kafka_java, schemas_enable="false").toConnectData("t", value_of("json")).value()
    assert (row.get("text"), row.get("whole"), row.get("day")) == (ROW["text"], ROW["whole"], "2026-10-05")
    assert (row.get("inner").size(), row.get("inner").get("a"), row.get("inner").get("b")) == (2, 1, None)


KEYED = pa.record_batch({"event": ["Größe"], "n": [7]})


def keys_of(name: Any, *fields: str, ref: SchemaRef | None = None) -> bytes:
    [key] = KeyEncoder(name, KEYED.schema, fields, "com.example.EventKey").encode(KEYED, ref).values
    assert key is not None
    return key


def test_java_reads_the_keys(kafka_java: Any) -> None:
    text = kafka_java.org.apache.kafka.connect.storage.StringConverter()
    text.configure({}, True)
    assert text.toConnectData("t", keys_of("string", "event")).value() == "Größe"
    assert text.toConnectData("t", keys_of("string", "event", "n")).value() == '["Größe",7]'
    read = json_converter(kafka_java, schemas_enable="false").toConnectData("t", keys_of("json", "event", "n")).value()
    assert (read.get("event"), read.get("n")) == ("Größe", 7)


def test_avros_own_java_reads_the_keys(kafka_java: Any) -> None:
    converter = KeyEncoder("avro", KEYED.schema, ("event", "n"), "com.example.EventKey").converter
    assert converter is not None
    avro = kafka_java.org.apache.avro
    schema = avro.Schema.Parser().parse(converter.document)
    key = keys_of("avro", "event", "n", ref=SchemaRef("t-key", 258, 1))
    assert key[:5] == b"\0\0\0\1\2"
    decoder = avro.io.DecoderFactory.get().binaryDecoder(key[5:], None)
    row = avro.generic.GenericDatumReader(schema).read(None, decoder)
    assert (row.get("event").toString(), row.get("n"), decoder.isEnd()) == ("Größe", 7, True)
    assert schema.getFullName() == "com.example.EventKey"


def test_headers_are_texts_for_the_string_converter_alone(kafka_java: Any) -> None:
    """Connect's own default guesses at types."""
    read = {
        name: (
            kafka_java.org.apache.kafka.connect.storage.StringConverter().toConnectHeader("t", name, value),
            kafka_java.org.apache.kafka.connect.storage.SimpleHeaderConverter().toConnectHeader("t", name, value),
        )
        for name, value in (("connect.day", b"2026-10-05"), ("connect.generation", b"1"))
    }
    assert [found[0].value() for found in read.values()] == ["2026-10-05", "1"]
    assert [str(found[1].schema().type()) for found in read.values()] == ["INT32", "INT8"]
    assert read["connect.day"][1].schema().name() == "org.apache.kafka.connect.data.Date"
