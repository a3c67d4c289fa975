"""The table of ``docs/kafka.md`` says what the converters make of every Arrow type."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.converters import SchemaRef
from airflow_provider_connect.values.names import legal_name

DOCS = Path(__file__).parents[4] / "docs" / "kafka.md"
HEAD = "| Arrow | `json` | `json_schema` | `json_schema_envelope` | `avro` | `protobuf` |"
AT = dt.datetime(2026, 10, 1, 12, 30, 0, 123000)  # noqa: DTZ001 - the type adds the zone

NO_FORM = [
    pa.duration("s"),
    pa.month_day_nano_interval(),
    pa.dense_union([]),
    pa.run_end_encoded(pa.int32(), pa.string()),
    pa.uuid(),
    pa.list_(pa.duration("s")),
    pa.map_(pa.list_(pa.int8()), pa.int8()),
]
EXAMPLES: list[tuple[str, pa.DataType, Any]] = [
    ("bool", pa.bool_(), True),
    ("int8", pa.int8(), -7),
    ("int16", pa.int16(), -7),
    ("int32", pa.int32(), -7),
    ("int64", pa.int64(), -7),
    ("uint8", pa.uint8(), 7),
    ("uint16", pa.uint16(), 7),
    ("uint32", pa.uint32(), 7),
    ("uint64", pa.uint64(), 7),
    ("float16, float32", pa.float32(), 1.5),
    ("float64", pa.float64(), 1.5),
    ("decimal(p, s)", pa.decimal128(10, 2), Decimal("-12.50")),
    ("string, large_string, string_view", pa.string(), "é"),
    ("binary, large_binary, binary_view, fixed_size_binary", pa.binary(), b"\x00\xff"),
    ("date32, date64", pa.date32(), AT.date()),
    ("time32, time64", pa.time64("us"), AT.time()),
    ("timestamp with a zone", pa.timestamp("us", "UTC"), AT.replace(tzinfo=dt.UTC)),
    ("timestamp without a zone", pa.timestamp("us"), AT),
    ("null", pa.null(), None),
    ("struct", pa.struct([("a", pa.int8())]), {"a": 1}),
    ("list, large_list, fixed_size_list, list_view", pa.list_(pa.string()), ["x"]),
    ("list of lists", pa.list_(pa.list_(pa.string())), [["x"]]),
    ("map with text keys", pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    ("map with other keys", pa.map_(pa.int64(), pa.int64()), [(1, 2)]),
]


def document(name: str, schema: pa.Schema) -> str:
    return make_converter(name, schema, AT.date(), record_name="connect.R").document or ""


def value(name: str, kind: pa.DataType, example: Any) -> Any:
    schema = pa.schema({"c": kind})
    batch = pa.record_batch([pa.array([example], kind)], schema=schema)
    (found,) = (
        make_converter(name, schema, AT.date(), record_name="connect.R").encode(batch, SchemaRef("s", 1, 1)).values
    )
    return found


def plain_json(kind: pa.DataType, example: Any) -> str:
    text = value("json", kind, example).decode().partition('"c":')[2]
    return f"`{text[:-1]}`"


def json_schema(kind: pa.DataType) -> str:
    found = json.loads(document("json_schema", pa.schema({"c": kind})))["properties"]["c"]
    types = [found["type"]] if isinstance(found["type"], str) else found["type"]
    detail = found.get("format") or found.get("contentEncoding")
    return " ".join(part for part in (types[0], detail) if part)


def envelope(kind: pa.DataType, example: Any) -> str:
    field = json.loads(value("json_schema_envelope", kind, example))["schema"]["fields"][1]
    return " ".join(part for part in (field["type"], field.get("name", "").rpartition(".")[2]) if part)


def avro(kind: pa.DataType) -> str:
    found = json.loads(document("avro", pa.schema({"c": kind})))["fields"][1]["type"][1]
    if isinstance(found, str):
        return found
    inner = found.get("items")
    of = inner["type"] if isinstance(inner, dict) else "union" if inner else ""
    return " ".join(part for part in (found["type"], found.get("logicalType"), of and f"of {of}") if part)


def protobuf(kind: pa.DataType) -> str:
    field = re.search(r"^  (.*) c = ", document("protobuf", pa.schema({"c": kind})), re.MULTILINE)
    assert field is not None
    return re.sub("C(Record|List|Entry)", "message", field[1].removeprefix("optional "))


def rows() -> list[str]:
    table = [
        (label, plain_json(kind, example), json_schema(kind), envelope(kind, example), avro(kind), protobuf(kind))
        for label, kind, example in EXAMPLES
    ]
    return [f"| {' | '.join(cells)} |" for cells in table]


def test_the_table_says_what_the_converters_do() -> None:
    found = DOCS.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0].strip().splitlines()
    assert found[1:] == rows()


def test_the_example_of_a_name_is_true() -> None:
    assert f"`$browser` is `{legal_name('$browser')}`" in DOCS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["json", "json_schema", "json_schema_envelope", "avro", "protobuf"])
@pytest.mark.parametrize("kind", NO_FORM, ids=str)
def test_types_without_a_representation_are_refused(name: str, kind: pa.DataType) -> None:
    (problem,) = make_converter(name, pa.schema({"c": kind}), None, record_name="connect.R").problems()
    assert problem.startswith("column 'c': ")


if __name__ == "__main__":
    print("\n".join([HEAD, "|---|---|---|---|---|---|", *rows()]))
