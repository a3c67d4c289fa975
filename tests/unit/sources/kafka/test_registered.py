"""Records of a schema registry: Avro by schema id, JSON Schema, and records that name none."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from airflow_provider_connect.clients.kafka.connection import check_connection, registry_connection
from airflow_provider_connect.clients.kafka.registry import RegisteredSchema, SchemaReference
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources._kafka.records import BadRecordError
from airflow_provider_connect.sources._kafka.registered import AvroReader, ProtobufReader, read_registered_json
from airflow_provider_connect.sources.kafka import KafkaSource

FIELDS = [
    {"name": "n", "type": ["null", "double"]},
    {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 4}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
    {"name": "more", "type": {"type": "map", "values": "long"}},
]
SCHEMA: dict[str, Any] = {"type": "record", "name": "R", "fields": FIELDS}
ROW: dict[str, Any] = {
    "n": 0.5,
    "d": Decimal("12345678901234567890.1234"),
    "at": dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC),
    "day": dt.date(2026, 11, 1),
    "kind": "B",
    "more": {"x": 1},
}


HEAD = b"\0\0\0\0\7"


class Schemas:
    """The schemas of a registry. Counts how often each is asked for."""

    url = "http://registry"

    def __init__(self, *schemas: RegisteredSchema) -> None:
        self.schemas = {schema.id: schema for schema in schemas}
        self.asked: list[int] = []

    def document(self, schema_id: int, text_format: str | None = None) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)

    def referenced(self, reference: SchemaReference, text_format: str | None = None) -> RegisteredSchema | None:
        return self.schemas.get(reference.version)


def registered(schema: Any = SCHEMA, kind: str = "AVRO", schema_id: int = 7, *uses: int) -> RegisteredSchema:
    text = schema if kind == "PROTOBUF" else json.dumps(schema)
    references = tuple(SchemaReference(f"{used}.proto", "s", used) for used in uses)
    return RegisteredSchema(schema_id, 0, text, kind, references)


def avro(row: dict[str, Any], schema_id: int = 7) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), row)
    return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()


def reader(*schemas: RegisteredSchema) -> tuple[AvroReader, Schemas]:
    made = Schemas(*schemas)
    return AvroReader(made), made  # type: ignore[arg-type]


def test_avro_becomes_json_and_its_schema_is_asked_for_once() -> None:
    read, schemas = reader(registered())
    for _ in range(2):
        assert read(avro(ROW)) == (
            b'{"n":0.5,"d":12345678901234567890.1234,"at":"2026-11-01T12:00:00Z","day":"2026-11-01","kind":"B",'
            b'"more":{"x":1}}'
        )
    assert schemas.asked == [7]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no schema id"),
        (b'{"n": 1}', "no schema id"),
        (avro(ROW)[:-3], "do not fit the Avro schema"),
        (avro(ROW) + b"x", "longer than its Avro schema"),
        (avro(ROW | {"n": float("nan")}), "a number without a value"),
    ],
)
def test_a_record_that_is_not_of_its_schema_is_bad(data: bytes, problem: str) -> None:
    read, _ = reader(registered())
    with pytest.raises(BadRecordError, match=problem):
        read(data)


def test_an_unknown_schema_is_asked_for_again_and_other_kinds_are_refused() -> None:
    read, schemas = reader()
    for _ in range(2):
        with pytest.raises(RetriableError, match="does not know schema 7"):
            read(avro(ROW))
    assert schemas.asked == [7, 7]
    with pytest.raises(ConfigError, match="is of type PROTOBUF, which converter 'avro' cannot read"):
        reader(registered("", "PROTOBUF"))[0](avro(ROW))
    with pytest.raises(RetriableError, match="does not have version 8 of subject 's', which schema 7 refers to"):
        reader(registered(SCHEMA, "AVRO", 7, 8))[0](avro(ROW))
    with pytest.raises(ConfigError, match="Avro schema 7 cannot be read"):
        reader(registered({"type": "record", "name": "R", "fields": [{"name": "n", "type": "Absent"}]}))[0](avro(ROW))


def test_json_schema_s_records_lose_their_head() -> None:
    assert read_registered_json(b'\0\0\0\0\7{"a": 1}') == b'{"a": 1}'
    with pytest.raises(BadRecordError):
        read_registered_json(b'{"a": 1}')


def test_the_registry_s_settings_stand_apart_in_the_connection() -> None:
    extra = {"bootstrap.servers": "k:9092", "schema.registry.url": "https://r:8081", "schema.registry.login": "me"}
    connection = Connection(conn_id="k", conn_type="kafka", extra=extra | {"schema.registry.password": "hunter2"})
    assert check_connection(connection) == []
    registry = registry_connection(connection)
    assert registry is not None
    assert (registry.host, registry.password and registry.password.get_secret_value()) == ("https://r:8081", "hunter2")
    source = KafkaSource(topics=["t"], value_converter="avro", columns={"n": "double"})
    assert source.check(connection) == []
    without = Connection(conn_id="k", conn_type="kafka", extra={"bootstrap.servers": "k:9092"})
    assert "need schema.registry.url" in source.check(without)[0]
    for change in ({"schema.registry.password": None}, {"schema.registry.url": "ftp://r"}, {"schema.registry.x": "1"}):
        assert source.check(connection.model_copy(update={"extra": connection.extra | change}))


@pytest.mark.parametrize("size", [None, 8])
def test_a_decimal_with_more_digits_than_its_schema_says_is_not_rounded(size: int | None) -> None:
    kind: dict[str, Any] = {"type": "bytes"} if size is None else {"type": "fixed", "name": "F", "size": size}
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": kind | {"logicalType": "decimal", "precision": 4, "scale": 2}}],
    }
    read, _ = reader(registered(schema))
    number = (123456).to_bytes(size or 3, "big")
    head = b"" if size else bytes([2 * len(number)])
    assert read(b"\0\0\0\0\7" + head + number) == b'{"d":1234.56}'


def test_avro_schemas_that_refer_to_each_other() -> None:
    money: dict[str, Any] = {"type": "record", "name": "shop.Money", "fields": [{"name": "cents", "type": "long"}]}
    price = {"name": "price", "type": ["null", "shop.Money"]}
    order = {"type": "record", "name": "shop.Order", "fields": [{"name": "id", "type": "long"}, price]}
    schemas = [registered(money, "AVRO", 1), registered(order, "AVRO", 2, 1)]
    record = b"\x02\x02\x06"
    read, _ = reader(*schemas, registered(order, "AVRO", 7, 1))
    assert read(HEAD + record) == b'{"id":1,"price":{"cents":3}}'
    union = RegisteredSchema(7, 0, '["null", "shop.Order"]', "AVRO", (SchemaReference("shop.Order", "s", 2),))
    read, _ = reader(*schemas, union)
    assert read(HEAD + b"\x02" + record) == b'{"id":1,"price":{"cents":3}}'


def protobuf_reader(*schemas: RegisteredSchema) -> ProtobufReader:
    return ProtobufReader(Schemas(*schemas))  # type: ignore[arg-type]


def test_files_that_refer_to_each_other_are_read_once() -> None:
    shared = registered('syntax = "proto3"; package p; message S { uint64 n = 1; }', "PROTOBUF", 1)
    left = registered('syntax = "proto3"; package p; import "1.proto"; message L { S s = 1; }', "PROTOBUF", 2, 1)
    right = registered('import "1.proto"; import "2.proto"; message R { p.S s = 1; p.L l = 2; }', "PROTOBUF", 7, 1, 2)
    read = protobuf_reader(shared, left, right)
    assert read(HEAD + b"\0" + b"\x0a\x02\x08\x05") == b'{"s":{"n":5},"l":null}'


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no schema id"),
        (HEAD, "do not fit the Protobuf schema"),
        (HEAD + b"\xff", "do not fit the Protobuf schema"),
        (HEAD + b"\2\4", "names a message type"),
        (HEAD + b"\0" + b"\x09\0", "do not fit the Protobuf schema"),
        (HEAD + b"\0" + b"\x09" + b"\0\0\0\0\0\0\xf8\x7f", "a number without a value"),
    ],
)
def test_a_protobuf_record_that_is_not_of_its_schema_is_bad(data: bytes, problem: str) -> None:
    with pytest.raises(BadRecordError, match=problem):
        protobuf_reader(registered("message M { optional double d = 1; }", "PROTOBUF"))(data)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('import "absent.proto"; message M {}', "imports 'absent.proto', which is none of its references"),
        ("message M { optional Absent a = 1; }", "is not complete"),
        ("no protobuf", "neither a descriptor nor source text"),
    ],
)
def test_a_protobuf_schema_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        protobuf_reader(registered(text, "PROTOBUF"))(HEAD + b"\0")


def test_well_known_types_become_plain_values() -> None:
    text = """
        import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto"; import "google/type/date.proto";
        import "confluent/type/decimal.proto"; import "google/protobuf/duration.proto";
        message M {
          optional google.protobuf.Int64Value n = 1; optional google.protobuf.Struct s = 2;
          optional google.type.Date day = 3; optional confluent.type.Decimal d = 4;
          optional google.protobuf.Duration t = 5; optional bytes b = 6; map<bool, int32> m = 7;
        }"""
    pairs = [
        (1, b"\x08\x07"),
        (2, b"\x0a\x07\x0a\x01a\x12\x02\x20\x01"),
        (3, b"\x08\xea\x0f\x10\x0b\x18\x02"),
        (4, b"\x0a\x02\xff\x85\x18\x02"),
        (5, b"\x08\x03"),
        (6, b"\xff"),
        (7, b"\x08\x01\x10\x02"),
    ]
    body = b"".join(bytes([number << 3 | 2, len(value)]) + value for number, value in pairs)
    assert protobuf_reader(registered(text, "PROTOBUF"))(HEAD + b"\0" + body) == (
        b'{"n":7,"s":{"a":true},"day":"2026-11-02","d":-1.23,"t":"3s","b":"/w==","m":{"true":2}}'
    )


def test_texts_of_times_have_every_nanosecond_and_avro_s_nanoseconds_are_numbers() -> None:
    text = 'import "google/protobuf/timestamp.proto"; message M { optional google.protobuf.Timestamp at = 1; }'
    at = b"\x08\x80\x01\x10\x95\x9a\xef\x3a"
    read = protobuf_reader(registered(text, "PROTOBUF"))
    assert read(HEAD + b"\0" + b"\x0a" + bytes([len(at)]) + at) == b'{"at":"1970-01-01T00:02:08.123456789Z"}'
    field = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}}
    read_avro, _ = reader(registered({"type": "record", "name": "R", "fields": [field]}))
    assert read_avro(HEAD + b"\x02") == b'{"at":1}'


def test_a_member_of_a_oneof_that_is_not_set_is_null_and_a_plain_number_has_its_default() -> None:
    text = 'syntax = "proto3"; message M { oneof way { string post = 1; int32 store = 2; } int32 n = 3; }'
    read = protobuf_reader(registered(text, "PROTOBUF"))
    assert read(HEAD + b"\0") == b'{"post":null,"store":null,"n":0}'
    assert read(HEAD + b"\0" + b"\x10\0") == b'{"post":null,"store":0,"n":0}'
