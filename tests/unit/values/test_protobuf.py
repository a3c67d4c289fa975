"""Protobuf values: what Google's own library reads from them is what the source's rows hold, for every type."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import assume, given

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.converters import Converter, SchemaRef
from airflow_provider_connect.values.names import legal_name
from airflow_provider_connect.values.protobuf.schema import messages_by_name, misfits, parse_registered
from tests.equipment.arrow_rows import batches, python_time

DAY = dt.date(2026, 10, 1)
NAME = "connect.Events"
REF = SchemaRef("topic-value", 258, 3)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NULL_ELEMENT = "NULL inside a list, which Protobuf does not have"


def made(schema: pa.Schema) -> Converter:
    return make_converter("protobuf", schema, DAY, record_name=NAME)


def document(schema: pa.Schema) -> str:
    return made(schema).document or ""


def descriptor(text: str) -> Any:
    """Return the descriptor of a registered text, completed to what Google's library asks for."""
    file = parse_registered(text)
    file.name, file.dependency[:] = "events.proto", ["google/protobuf/timestamp.proto"]
    for message in messages_by_name(file).values():
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    return file


def message_class(text: str, name: str = NAME) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(descriptor(text).SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def unframed(cls: Any, value: bytes | None, index: bytes = b"\0") -> Any:
    assert value is not None
    assert value[: 5 + len(index)] == b"\0\0\0\1\2" + index
    found = cls.FromString(value[5 + len(index) :])
    assert len(UnknownFieldSet(found)) == 0
    return found


def is_wrapped(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind) or (hasattr(kind, "value_type") and not pa.types.is_dictionary(kind)))


def holds(message: Any, name: str, value: Any, kind: pa.DataType) -> bool:
    """Tell whether a message's field is what a value of a type should have become."""
    if pa.types.is_dictionary(kind):
        return holds(message, name, value, kind.value_type)
    name = legal_name(name)
    found = getattr(message, name)
    if pa.types.is_map(kind):
        return len(found) == len(value or ()) and all(
            holds(entry, "key", key, kind.key_type) and holds(entry, "value", item, kind.item_type)
            for entry, (key, item) in zip(found, value or (), strict=True)
        )
    if hasattr(kind, "value_type"):
        inner = kind.value_type
        if is_wrapped(inner):
            return len(found) == len(value or ()) and all(
                holds(entry, "items", item, inner) for entry, item in zip(found, value or (), strict=True)
            )
        return len(found) == len(value or ()) and all(
            same(a, b, inner) for a, b in zip(found, value or (), strict=True)
        )
    if value is None:
        return not message.HasField(name)
    return message.HasField(name) and same(found, value, kind)


def same(found: Any, value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return same(found, value, kind.value_type)
    if pa.types.is_struct(kind):
        return all(holds(found, field.name, value[field.name], field.type) for field in kind)
    if isinstance(value, np.floating):
        return bool(np.float16(found) == value)
    value = python_time(value)
    if isinstance(value, dt.datetime) and kind.tz:
        return bool(EPOCH + dt.timedelta(seconds=found.seconds, microseconds=found.nanos // 1000) == value)
    if isinstance(value, dt.datetime | dt.time):
        return bool(found == value.isoformat(timespec="microseconds"))
    if isinstance(value, dt.date):
        return bool(found == value.isoformat())
    if isinstance(value, Decimal):
        return Decimal(found) == value
    return bool(found == value and type(found) is type(value))


def null_inside(value: Any, kind: pa.DataType) -> bool:
    """Tell whether a list, however deep inside, holds a NULL that is no list itself."""
    if value is None or pa.types.is_dictionary(kind):
        return False
    if pa.types.is_struct(kind):
        return any(null_inside(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind):
        return any(null_inside(item, kind.item_type) for _, item in value)
    if not isinstance(value, list):
        return False
    inner = kind.value_type
    return any((item is None and not is_wrapped(inner)) or null_inside(item, inner) for item in value)


@given(batches())
def test_what_googles_library_reads_is_what_the_rows_hold(batch: pa.RecordBatch) -> None:
    assume(not make_converter("protobuf", batch.schema, None, record_name=NAME).problems())
    cls = message_class(document(batch.schema))
    found = made(batch.schema).encode(batch, REF)
    columns = [array.to_pylist() for array in batch.columns]
    for row, value in enumerate(found.values):
        with_null = [
            field.name
            for field, values in zip(batch.schema, columns, strict=True)
            if null_inside(values[row], field.type)
        ]
        assert found.refused.get(row) == ((with_null[0], NULL_ELEMENT) if with_null else None)
        if with_null:
            assert value is None
            continue
        message = unframed(cls, value)
        assert message.day == "2026-10-01"
        for field, values in zip(batch.schema, columns, strict=True):
            assert holds(message, field.name, values[row], field.type), field


def test_names_that_are_one_in_protobuf_are_a_problem_and_not_a_broken_schema() -> None:
    # The synthetic oneof of ``a`` is called ``_a``; the other two have one name in Protobuf's JSON.
    for names in (("a", "_a"), ("userName", "user_name")):
        schema = pa.schema({name: pa.int8() for name in names})
        (problem,) = make_converter("protobuf", schema, None, record_name=NAME).problems()
        assert "Rename" in problem
        assert names[1] in problem


REGISTERED = """
name: "events.proto"
package: "connect"
syntax: "proto3"
dependency: "google/protobuf/timestamp.proto"
message_type { name: "Another" }
message_type {
  name: "Events"
  field { name: "n" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "day" number: 7 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "t" number: 3 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Timestamp" }
  field { name: "more" number: 4 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "m" number: 5 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".connect.Events.MEntry" }
  nested_type {
    name: "MEntry"
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
    options { map_entry: true }
  }
}
"""


def registered() -> str:
    from google.protobuf import text_format

    file = text_format.Parse(REGISTERED, descriptor_pb2.FileDescriptorProto())
    return base64.b64encode(file.SerializeToString()).decode()


def test_values_are_written_by_the_numbers_of_the_registered_schema() -> None:
    schema = pa.schema({"t": pa.timestamp("ms", "UTC"), "n": pa.int64(), "m": pa.map_(pa.string(), pa.int64())})
    batch = pa.record_batch({"t": [EPOCH], "n": [-5], "m": [[("a", 1), ("b", -2)]]}, schema=schema)
    assert misfits(document(schema), registered()) == []
    found = made(schema).encode(batch, SchemaRef("s", 258, 3, registered()))
    message = unframed(message_class(registered()), found.values[0], b"\2\2")
    assert (message.n, message.day, message.t.seconds, message.more) == (-5, "2026-10-01", 0, "")
    assert dict(message.m) == {"a": 1, "b": -2}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": pa.int64()}, "field x: not in the registered schema"),
        ({"n": pa.string()}, "field n: string here, int64 in the registered schema"),
        ({"n": pa.list_(pa.int64())}, "field n: repeated int64 here, int64 in the registered schema"),
        (
            {"t": pa.struct([("a", pa.int8())])},
            "field t: .connect.Events.TRecord here, .google.protobuf.Timestamp in the",
        ),
        ({"m": pa.map_(pa.string(), pa.string())}, "field m.value: string here, int64 in the registered schema"),
    ],
)
def test_what_a_registered_schema_cannot_hold_is_named(columns: dict[str, pa.DataType], said: str) -> None:
    (found,) = misfits(document(pa.schema(columns)), registered())
    assert found.startswith(said)


TEXT = """
/* The same, as people
   write it. */
syntax = 'proto3';
package connect;
import "google/protobuf/timestamp.proto";
option java_package = "a;b}";  // }
message Another { enum Color { RED = 0; } Color color = 1; }
enum Size { S = 0; }
message Events {
  reserved 9, 10 to 12;
  int64 n = 2 [deprecated = true, (x).y = {z: 1}];
  string day = 0x7;
  google.protobuf.Timestamp t = 3;
  oneof either { string more = 4; Size size = 6; }
  map<string, int64> m = 5;
}
service Nothing { rpc Do (Events) returns (Another) {} }
"""


def test_source_text_says_the_same_as_its_descriptor() -> None:
    schema = pa.schema({"t": pa.timestamp("ms", "UTC"), "n": pa.int64(), "m": pa.map_(pa.string(), pa.int64())})
    batch = pa.record_batch({"t": [EPOCH], "n": [-5], "m": [[("a", 1), ("b", -2)]]}, schema=schema)
    by_text = made(schema).encode(batch, SchemaRef("s", 258, 3, TEXT))
    assert by_text == made(schema).encode(batch, SchemaRef("s", 258, 3, registered()))
    (found,) = misfits(document(pa.schema({"size": pa.int64()})), TEXT)
    assert found == "field size: int64 here, enum in the registered schema"


def test_source_text_of_a_descriptor_is_this() -> None:
    schema = pa.schema(
        {"at": pa.timestamp("us", "UTC"), "tags": pa.list_(pa.string()), "p": pa.struct([("$x", pa.int8())])}
    )
    assert (
        document(schema)
        == f"""syntax = "proto3";
package connect;

import "google/protobuf/timestamp.proto";

message Events {{
  message PRecord {{
    optional int32 {legal_name("$x")} = 1;
  }}
  string day = 1;
  google.protobuf.Timestamp at = 2;
  repeated string tags = 3;
  PRecord p = 4;
}}
"""
    )


@pytest.mark.parametrize("text", ["{}", "message Events {", "message Events { string x; }", "x"])
def test_a_text_that_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        misfits(document(pa.schema({"a": pa.int8()})), text)
