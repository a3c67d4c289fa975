"""Avro values: what fastavro reads from them is what the source's rows hold, for every type."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.values.avro.schema import misfits
from airflow_provider_connect.values.converters import Converter, EncodedBatch, SchemaRef
from airflow_provider_connect.values.names import legal_name
from tests.equipment.arrow_rows import batches, python_time

DAY = dt.date(2026, 10, 1)
REF = SchemaRef("topic-value", 258, 3)


def made(schema: pa.Schema) -> Converter:
    return make_converter("avro", schema, DAY, record_name="connect.Events")


def encode(batch: pa.RecordBatch, registered: Any = None) -> EncodedBatch:
    text = json.dumps(registered) if registered is not None else None
    return made(batch.schema).encode(batch, SchemaRef("topic-value", 258, 3, text))


def read(value: bytes | None, document: str) -> Any:
    assert value is not None
    assert value[:5] == b"\0\0\0\1\2"
    stream = io.BytesIO(value[5:])
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(document)), None)
    assert stream.read() == b""
    return found


def same(found: Any, value: Any, kind: pa.DataType) -> bool:
    if value is None:
        return found is None
    if pa.types.is_dictionary(kind):
        return same(found, value, kind.value_type)
    if pa.types.is_struct(kind):
        names = [legal_name(field.name) for field in kind]
        return list(found) == names and all(
            same(found[name], value[field.name], field.type) for name, field in zip(names, kind, strict=True)
        )
    if pa.types.is_map(kind):
        pairs = list(found.items()) if is_text(kind.key_type) else [(pair["key"], pair["value"]) for pair in found]
        return len(pairs) == len(value) and all(
            same(pair[0], key, kind.key_type) and same(pair[1], item, kind.item_type)
            for pair, (key, item) in zip(pairs, value, strict=True)
        )
    if isinstance(value, list):
        return len(found) == len(value) and all(same(a, b, kind.value_type) for a, b in zip(found, value, strict=True))
    if isinstance(value, np.floating):
        return bool(np.float16(found) == value)
    value = python_time(value)
    if isinstance(value, dt.datetime) and kind.tz:
        return bool(found == value and found.utcoffset() == dt.timedelta(0))
    return bool(found == value and type(found) is (Decimal if pa.types.is_uint64(kind) else type(value)))


@given(batches())
def test_what_fastavro_reads_is_what_the_rows_hold(batch: pa.RecordBatch) -> None:
    document = made(batch.schema).document
    assert document is not None
    found = encode(batch)
    assert found.refused == {}
    columns = [array.to_pylist() for array in batch.columns]
    for row, value in enumerate(found.values):
        record = read(value, document)
        assert record.pop("day") == DAY
        assert list(record) == [legal_name(name) for name in batch.schema.names]
        for field, values in zip(batch.schema, columns, strict=True):
            assert same(record[legal_name(field.name)], values[row], field.type), field


def test_a_schema_says_what_is_nullable_and_what_a_field_was_called() -> None:
    schema = pa.schema(
        [pa.field("event", pa.string(), nullable=False, metadata={"comment": "Its name."}), pa.field("$os", pa.int64())]
    )
    document = made(schema).document
    assert json.loads(document or "") == {
        "type": "record",
        "name": "Events",
        "namespace": "connect",
        "fields": [
            {"name": "day", "type": {"type": "int", "logicalType": "date"}, "doc": "The day in the source's zone."},
            {"name": "event", "type": "string", "doc": "Its name."},
            {"name": "_os_x1db487e958", "type": ["null", "long"], "default": None, "doc": "Source name: '$os'."},
        ],
    }


def test_names_are_legal_and_never_the_same_for_two() -> None:
    names = ["a.b", "a_b", "a-b", "1st", "_x", "", "é", legal_name("a.b")]
    legal = [legal_name(name) for name in names]
    assert legal[1] == "a_b"
    assert len(set(legal)) == len(names)
    assert all(name.isascii() and name.isidentifier() for name in legal)


def test_problems_name_the_columns() -> None:
    schema = pa.schema({"a": pa.duration("s"), "b": pa.list_(pa.struct([("x", pa.month_day_nano_interval())]))})
    found = make_converter("avro", schema, None, record_name="Events").problems()
    assert [text.partition(":")[0] for text in found] == ["column 'a'", "column 'b'"]


DATE = {"type": "int", "logicalType": "date"}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Other", "fields": [{"name": name, "type": kind} for name, kind in fields]}


BATCH = pa.record_batch({"s": ["x", None], "n": pa.array([1, 2], pa.int32()), "l": [[{"a": 1}], None]})
INNER = {"type": "record", "name": "In", "fields": [{"name": "a", "type": ["null", "long"]}]}
LISTS = {"type": "array", "items": [INNER, "null"]}


def test_values_are_written_by_the_registered_schema() -> None:
    registered = record(
        ("n", ["long", "null"]),
        ("new", ["null", "string"]),
        ("l", [LISTS, "null"]),
        ("day", ["null", DATE]),
        ("s", "string"),
    )
    assert misfits(made(BATCH.schema).document or "", json.dumps(registered)) == []
    found = encode(BATCH, registered)
    assert found.refused == {1: ("s", "NULL, which the registered schema does not take")}
    assert found.values[1] is None
    expected = {"n": 1, "new": None, "l": [{"a": 1}], "day": DAY, "s": "x"}
    assert read(found.values[0], json.dumps(registered)) == expected


def test_a_named_type_may_be_used_again() -> None:
    schema = pa.schema({"p": pa.struct([("a", pa.int64())]), "q": pa.struct([("a", pa.int64())])})
    batch = pa.record_batch({"p": [{"a": 1}], "q": [None]}, schema=schema)
    registered = {"namespace": "ns"} | record(("day", DATE), ("p", INNER), ("q", ["null", "ns.In"]))
    assert misfits(made(schema).document or "", json.dumps(registered)) == []
    assert read(encode(batch, registered).values[0], json.dumps(registered)) == {"day": DAY, "p": {"a": 1}, "q": None}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("s", "string"), ("n", "int")], ["field l: not in the registered schema"]),
        ([("s", "bytes"), ("n", "int"), ("l", LISTS)], ["field s: string here, bytes in the registered schema"]),
        (
            [("s", "string"), ("n", {"type": "int", "logicalType": "date"}), ("l", LISTS)],
            ["field n: int here, int/date in the registered schema"],
        ),
        (
            [("s", "string"), ("n", "int"), ("l", LISTS), ("z", "string")],
            ["field z: the registered schema requires a value, but the source has no such column"],
        ),
        (
            [("s", "string"), ("n", "int"), ("l", {"type": "array", "items": {**INNER, "fields": []}})],
            ["field l, items.a: not in the registered schema"],
        ),
        (
            [("s", ["string", "long"]), ("n", "int"), ("l", LISTS)],
            ["field s: a union of several types in the registered schema"],
        ),
    ],
)
def test_what_a_registered_schema_cannot_hold_is_named(fields: list[tuple[str, Any]], said: list[str]) -> None:
    registered = json.dumps(record(("day", DATE), *fields))
    assert misfits(made(BATCH.schema).document or "", registered) == said


def test_a_value_without_the_id_of_its_schema_is_never_written() -> None:
    with pytest.raises(TypeError, match="needs the id"):
        made(BATCH.schema).encode(BATCH, None)


def test_text_that_is_no_utf8_is_refused() -> None:
    bad = pa.record_batch({"c": pa.array([b"\xff", b"a"]).view(pa.string())})
    assert encode(bad).refused == {0: ("c", "a text that is not UTF-8")}
