"""Numbers of Protobuf's fields: small, and a name's own through all versions of a subject."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.sinks._kafka.converters import make_converter
from airflow_provider_connect.values.converters import SchemaRef
from airflow_provider_connect.values.protobuf.field_numbers import renumber
from airflow_provider_connect.values.protobuf.schema import messages_by_name, misfits, parse_registered
from tests.unit.values.test_protobuf import DAY, NAME, TEXT, message_class, registered

INT = pa.int64()


def document(columns: dict[str, pa.DataType], day: dt.date | None = DAY) -> str:
    return make_converter("protobuf", pa.schema(columns), day, record_name=NAME).document or ""


def numbers(text: str, message: str = f".{NAME}") -> dict[str, int]:
    return {field.name: field.number for field in messages_by_name(parse_registered(text))[message].field}


def test_the_first_version_is_numbered_as_it_is_declared() -> None:
    columns = {"c": INT, "a": pa.struct([("y", INT), ("x", pa.map_(pa.string(), INT))]), "b": pa.list_(pa.list_(INT))}
    text = document(columns)
    assert numbers(text) == {"day": 1, "c": 2, "a": 3, "b": 4}
    assert numbers(text, f".{NAME}.ARecord") == {"y": 1, "x": 2}
    assert numbers(text, f".{NAME}.ARecord.XEntry") == {"key": 1, "value": 2}
    assert numbers(text, f".{NAME}.BList") == {"items": 1}
    assert numbers(document(columns, None)) == {"c": 1, "a": 2, "b": 3}
    assert renumber(text, []) == text


def test_tags_of_a_first_version_take_one_byte() -> None:
    schema = pa.schema({f"c{number:02}": INT for number in range(14)})
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, 1)], schema)
    [value] = make_converter("protobuf", schema, None, record_name=NAME).encode(batch, SchemaRef("s", 1, 1)).values
    assert len(value or b"") == 6 + 14 * 2


def test_a_new_column_moves_no_other_ones_number() -> None:
    first = document({"a": INT, "c": pa.string()})
    second = renumber(document({"b": INT, "c": pa.string(), "a": INT}), [first])
    assert numbers(second) == {"day": 1, "a": 2, "c": 3, "b": 4}
    assert misfits(first, second) == []
    third = renumber(document({"d": INT, "c": pa.string()}), [second, first])
    assert numbers(third) == {"day": 1, "c": 3, "d": 5}


def test_a_column_that_comes_back_gets_its_own_number_again() -> None:
    first = document({"a": INT, "b": INT})
    second = renumber(document({"b": INT}), [first])
    third = renumber(document({"b": INT, "c": INT}), [second, first])
    assert numbers(third) == {"day": 1, "b": 3, "c": 4}
    assert numbers(renumber(document({"a": INT, "b": INT, "c": INT}), [third, second, first])) == {
        "day": 1, "a": 2, "b": 3, "c": 4,
    }  # fmt: skip


def test_two_sources_of_one_subject_do_not_drive_each_other_to_new_versions() -> None:
    one, other = document({"a": INT}), document({"a": INT, "b": INT})
    second = renumber(other, [one])
    assert renumber(one, [second, one]) == one
    assert renumber(other, [second, one]) == second


def test_the_versions_are_asked_for_only_until_one_fits() -> None:
    asked: list[str] = []

    def versions() -> Any:
        for text in (document({"a": INT}), "nonsense"):
            asked.append(text)
            yield text

    assert renumber(document({"a": INT}), versions()) == document({"a": INT})
    assert len(asked) == 1
    assert numbers(renumber(document({"b": INT, "a": INT}), versions())) == {"day": 1, "b": 3, "a": 2}
    assert len(asked) == 3


@pytest.mark.parametrize("text", [TEXT, registered()])
def test_a_schema_that_people_wrote_is_gone_on_from(text: str) -> None:
    found = numbers(renumber(document({"x": INT, "m": pa.map_(pa.string(), INT), "n": INT, "y": INT}), [text]))
    last = 12 if text == TEXT else 7  # what is reserved is no field's
    assert found == {"day": 7, "n": 2, "m": 5, "x": last + 1, "y": last + 2}


def test_numbers_of_long_hashes_are_kept_and_followed_by_small_ones() -> None:
    hashed = document({"a": INT}).replace("a = 2", "a = 177701138")
    assert numbers(renumber(document({"b": INT, "a": INT}), [hashed])) == {
        "day": 1,
        "a": 177_701_138,
        "b": 2,
    }


def test_what_protobuf_keeps_for_itself_is_no_number() -> None:
    full = document({"a": INT}).replace("a = 2", "a = 18999")
    assert numbers(renumber(document({"a": INT, "b": INT}), [full]))["b"] == 20_000


def test_inner_messages_are_gone_on_from_too() -> None:
    def deep(**more: pa.DataType) -> str:
        inner = pa.struct([*[pa.field(name, kind) for name, kind in more.items()], ("x", INT)])
        return document({"m": pa.map_(pa.string(), inner), "l": pa.list_(inner)})

    text = renumber(deep(new=INT), [deep()])
    for message in ("MEntry.ValueRecord", "LRecord"):
        assert numbers(text, f".{NAME}.{message}") == {"x": 1, "new": 2}


def test_values_are_read_by_the_numbers_that_were_registered() -> None:
    schema = pa.schema({"b": INT, "a": pa.string()})
    text = renumber(document({"b": INT, "a": pa.string()}), [document({"a": pa.string()})])
    batch = pa.RecordBatch.from_pylist([{"b": 7, "a": "x"}], schema)
    ref = SchemaRef("s", 258, 2, text)
    [value] = make_converter("protobuf", schema, DAY, record_name=NAME).encode(batch, ref).values
    message = message_class(text).FromString((value or b"")[6:])
    assert (message.day, message.a, message.b) == ("2026-10-01", "x", 7)
