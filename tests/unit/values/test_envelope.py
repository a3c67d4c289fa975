"""Connect's envelope: a reader by Connect's rules gets back what the rows hold, for every type."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import MAX_PREC, Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.values.converters import EncodedBatch
from tests.equipment.arrow_rows import batches, python_time

DAY = dt.date(2026, 10, 1)
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the zone is added by what reads
FINER = "a time finer than a millisecond, which Kafka Connect's logical types do not have"
LOGICAL = "org.apache.kafka.connect.data."
RANGES = {"int8": 2**7, "int16": 2**15, "int32": 2**31, "int64": 2**63}


def encode(batch: pa.RecordBatch) -> EncodedBatch:
    return make_converter("json_schema_envelope", batch.schema, DAY, record_name="connect.Events").encode(batch, None)


def read(value: Any, schema: dict[str, Any]) -> Any:
    """Return a payload as Connect's JsonConverter makes a Java object of it."""
    if value is None:
        assert schema["optional"]
        return None
    kind = schema["type"]
    if kind == "struct":
        assert list(value) == [field["field"] for field in schema["fields"]]
        return {field["field"]: read(value[field["field"]], field) for field in schema["fields"]}
    if kind == "array":
        return [read(item, schema["items"]) for item in value]
    if kind == "map":
        pairs = value.items() if schema["keys"]["type"] == "string" else value
        return [(read(key, schema["keys"]), read(item, schema["values"])) for key, item in pairs]
    return logical(plain(value, kind), schema)


def plain(value: Any, kind: str) -> Any:
    if kind in RANGES:
        assert isinstance(value, int)
        assert -RANGES[kind] <= value < RANGES[kind]
    if kind == "bytes":
        return base64.b64decode(value)
    return float(value) if kind in ("float", "double") else value


def logical(value: Any, schema: dict[str, Any]) -> Any:
    name = schema.get("name", "").removeprefix(LOGICAL)
    if name == "Decimal":
        exact = Context(prec=MAX_PREC)  # the usual context keeps 28 digits
        return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-int(schema["parameters"]["scale"]), exact)
    if name == "Date":
        return dt.date(1970, 1, 1) + dt.timedelta(days=value)
    if name == "Time":
        return (EPOCH + dt.timedelta(milliseconds=value)).time()
    return EPOCH + dt.timedelta(milliseconds=value) if name == "Timestamp" else value


def wanted(value: Any, kind: pa.DataType) -> Any:
    """Return what a reader should get of a value."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: wanted(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return [(wanted(key, kind.key_type), wanted(item, kind.item_type)) for key, item in value]
    if isinstance(value, list):
        return [wanted(item, kind.value_type) for item in value]
    if isinstance(value, dt.datetime):
        value = python_time(value)
        return value.astimezone(dt.UTC).replace(tzinfo=None) if kind.tz else value
    return float(value) if pa.types.is_floating(kind) else value


def is_finer(value: Any, kind: pa.DataType) -> bool:
    """Tell whether a value holds, however deep inside, a time that Connect cannot say."""
    if isinstance(value, dt.datetime | dt.time):
        return value.microsecond % 1000 != 0
    if isinstance(value, dict):
        return any(is_finer(item, kind) for item in value.values())
    return isinstance(value, list | tuple) and any(is_finer(item, kind) for item in value)


def narrow(value: Any) -> Any:
    """Return a value in which floats of 32 bits, written by their shortest text, are such again."""
    import numpy as np

    if isinstance(value, float):
        return float(np.float32(value)) if abs(value) < 3.4e38 else value
    if isinstance(value, dict):
        return {key: narrow(item) for key, item in value.items()}
    return type(value)(narrow(item) for item in value) if isinstance(value, list | tuple) else value


@given(batches())
def test_a_reader_by_connects_rules_gets_back_what_the_rows_hold(batch: pa.RecordBatch) -> None:
    found = encode(batch)
    columns = [array.to_pylist() for array in batch.columns]
    for row, value in enumerate(found.values):
        finer = [
            field.name for field, values in zip(batch.schema, columns, strict=True) if is_finer(values[row], field.type)
        ]
        assert found.refused.get(row) == ((finer[0], FINER) if finer else None)
        if finer:
            continue
        envelope = json.loads(value or b"")
        assert list(envelope) == ["schema", "payload"]
        record = read(envelope["payload"], envelope["schema"])
        assert record.pop("day") == DAY
        expected = {f.name: wanted(values[row], f.type) for f, values in zip(batch.schema, columns, strict=True)}
        assert narrow(record) == narrow(expected)


def test_what_an_envelope_looks_like() -> None:
    schema = pa.schema([pa.field("n", pa.uint32(), nullable=False), pa.field("d", pa.decimal128(5, 2))])
    batch = pa.record_batch(
        {"n": pa.array([7], pa.uint32()), "d": pa.array([Decimal("-1.50")], pa.decimal128(5, 2))}, schema=schema
    )
    (value,) = encode(batch).values
    assert json.loads(value or b"") == {
        "schema": {
            "type": "struct",
            "name": "connect.Events",
            "optional": False,
            "fields": [
                {"field": "day", "type": "int32", "optional": False, "name": f"{LOGICAL}Date", "version": 1},
                {"field": "n", "type": "int64", "optional": False},
                {
                    "field": "d",
                    "type": "bytes",
                    "optional": True,
                    "name": f"{LOGICAL}Decimal",
                    "version": 1,
                    "parameters": {"scale": "2", "connect.decimal.precision": "5"},
                },
            ],
        },
        "payload": {"day": 20727, "n": 7, "d": base64.b64encode((-150).to_bytes(16, "big", signed=True)).decode()},
    }


def test_a_json_document_is_a_string() -> None:
    field = pa.field("p", pa.string(), metadata={"json": "checked"})
    batch = pa.record_batch({"p": ['{"a": "x\\"y\\n"}']}, schema=pa.schema([field]))
    (value,) = encode(batch).values
    assert json.loads(value or b"")["payload"]["p"] == '{"a": "x\\"y\\n"}'
    assert is_text(field.type)


@pytest.mark.parametrize("kind", [pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC")])
def test_a_time_that_connect_would_cut_is_refused(kind: pa.DataType) -> None:
    found = encode(pa.record_batch({"c": pa.array([1, 1000, None], kind)}))
    assert found.refused == {0: ("c", FINER)}
