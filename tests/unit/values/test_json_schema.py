"""JSON Schema values: plain JSON behind an id, and a schema that every value keeps to."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.converters import Converter, SchemaRef
from airflow_provider_connect.values.json.schema import misfits
from tests.equipment.arrow_rows import batches

DAY = dt.date(2026, 10, 1)
REF = SchemaRef("topic-value", 258, 3)


def made(schema: pa.Schema, name: str = "json_schema") -> Converter:
    return make_converter(name, schema, DAY, record_name="connect.Events")


def document(schema: pa.Schema) -> Any:
    return json.loads(made(schema).document or "")


@given(batches())
def test_every_value_is_what_json_has_and_keeps_to_the_schema(batch: pa.RecordBatch) -> None:
    schema = document(batch.schema)
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker())
    found = made(batch.schema).encode(batch, REF)
    plain = made(batch.schema, "json").encode(batch, None)
    assert found.values == [b"\0\0\0\1\2" + (value or b"") for value in plain.values]
    for value in plain.values:
        validator.validate(json.loads(value or b""))


def test_the_schema_is_closed_and_knows_what_may_be_null() -> None:
    schema = pa.schema(
        [
            pa.field("event", pa.string(), nullable=False, metadata={"comment": "Its name."}),
            pa.field("n", pa.int64()),
            pa.field("properties", pa.string(), metadata={"json": "checked"}),
            pa.field("at", pa.timestamp("us", "UTC")),
        ]
    )
    assert document(schema) == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "connect.Events",
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "event": {"type": "string", "description": "Its name."},
            "n": {"type": ["integer", "null"]},
            "properties": {},
            "at": {"type": ["string", "null"], "format": "date-time"},
        },
        "additionalProperties": False,
        "required": ["day", "event"],
    }


@pytest.mark.parametrize("value", [{"day": "2026-10-01", "event": None}, {"day": "2026-10-01"}, {"event": "x"}])
def test_the_schema_refuses_what_the_source_never_has(value: dict[str, Any]) -> None:
    schema = document(pa.schema([pa.field("event", pa.string(), nullable=False)]))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)


OWN = pa.schema(
    [
        pa.field("s", pa.string(), nullable=False),
        pa.field("n", pa.int64()),
        pa.field("o", pa.struct([("a", pa.int8())])),
    ]
)
OPEN = {"type": "object", "properties": {"s": {"type": "string"}}}
NUMBER = {"type": ["number", "null"]}
EITHER = {"oneOf": [{"type": "null"}, {"type": "integer"}]}
OBJECT = {"type": ["object", "null"], "properties": {"a": {"type": "string"}}}
ABSENT = "the registered schema requires a value, but the source may have none"


@pytest.mark.parametrize(
    ("registered", "said"),
    [
        (OPEN, []),
        ({"type": "object", "properties": {"n": NUMBER, "s": {}}, "required": ["s"]}, []),
        ({"type": "object", "properties": {"n": EITHER}}, []),
        (
            OPEN | {"additionalProperties": False},
            [f"field {name}: not in the registered schema" for name in ("day", "n", "o")],
        ),
        ({"properties": {"n": {"type": "integer"}}}, ["field n: integer/null here, integer in the registered schema"]),
        ({"properties": {"s": {"type": "number"}}}, ["field s: string here, number in the registered schema"]),
        (OPEN | {"required": ["n", "z"]}, [f"field n: {ABSENT}", f"field z: {ABSENT}"]),
        ({"properties": {"o": OBJECT}}, ["field o.a: integer/null here, string in the registered schema"]),
    ],
)
def test_what_a_registered_schema_does_not_take_is_named(registered: dict[str, Any], said: list[str]) -> None:
    assert sorted(misfits(made(OWN).document or "", json.dumps(registered))) == said


def test_problems_name_the_columns() -> None:
    found = make_converter("json_schema", pa.schema({"a": pa.duration("s")}), None, record_name="x").problems()
    assert [text.partition(":")[0] for text in found] == ["column 'a'"]


def test_a_column_named_day_is_one_like_any_other_where_the_day_is_left_out() -> None:
    made = make_converter("json_schema", pa.schema({"day": pa.string()}), None, record_name="x")
    assert made.problems() == []
    assert json.loads(made.document or "")["required"] == []
