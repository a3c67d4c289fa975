"""Answers in CSV and JSON lines are read whole, or fail."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SetupError
from airflow_provider_connect.sources._rest.pages.line_formats import csv_records, json_line_records
from airflow_provider_connect.sources.rest import Count, Cursor, LastKey, Offset, Single
from airflow_provider_connect.values.json.slices import JsonSlicer
from tests.equipment.rest_api.reading import declared, read
from tests.equipment.rest_api.server import Answer, RestApi

COLUMNS = {
    "id": "bigint",
    "name": "string",
    "price": "decimal(9,2)",
    "at": "timestamp",
    "open": "boolean",
    "rate": "double",
    "on": "date",
}
HEAD = "id,name,price,at,open,rate,on\n"


def rows(body: str | bytes, headers: dict[str, str] | None = None, **records: Any) -> list[dict[str, Any]]:
    raw = body if isinstance(body, bytes) else body.encode()
    options = {"format": "csv", "key": ["id"], "columns": COLUMNS, "undeclared": "drop"} | records
    with RestApi() as api:
        api.faults.append(lambda _: Answer(raw=raw, headers=headers or {"Content-Type": "text/csv"}))
        polled = read(api, declared("/x", Single(), records=options))
        assert api.asked[0].headers["accept"].startswith("text/csv" if options["format"] == "csv" else "application/x")
    return [row for _, _, batch in polled.batches for row in batch.to_pylist()]


def test_a_csv_has_typed_columns() -> None:
    body = HEAD + '1,"a ""b"", c",1.50,2026-03-01T08:00:00Z,TRUE,0.5,2026-03-01\r\n2,"",,,false,,\n3,,,,,,'
    first, second, third = rows(body)
    assert first["name"] == 'a "b", c'
    assert (first["price"], first["rate"], first["open"]) == (Decimal("1.50"), 0.5, True)
    assert (first["at"], first["on"]) == (dt.datetime(2026, 3, 1, 8, tzinfo=dt.UTC), dt.date(2026, 3, 1))
    assert (second["name"], second["price"], second["open"]) == ("", None, False)
    assert (third["id"], third["name"], third["open"]) == (3, None, None)


def test_a_csv_may_have_another_delimiter_and_encoding() -> None:
    body = "id;name\n1;ä, b\n".encode("latin-1")
    columns = {"id": "bigint", "name": "string"}
    found = rows(body, {"Content-Type": "text/csv; charset=iso-8859-1"}, columns=columns, delimiter=";")
    assert [(row["id"], row["name"]) for row in found] == [(1, "ä, b")]
    document = rows("﻿id\tname\n1\ta\\b\tc\n".replace("\tc", ""), columns=columns, delimiter="\t", undeclared="json")
    assert json.loads(document[0]["document"]) == {"id": "1", "name": "a\\b"}


def test_a_csv_with_its_header_alone_has_no_rows() -> None:
    assert rows(HEAD) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"error": "quota"}', "the header of the CSV lacks"),
        ("<html></html>", "the header of the CSV lacks"),
        ("id,name,price\n1,a,2\n", "the header of the CSV lacks 'at', 'on', 'open', 'rate'"),
        ("id,id\n1,2\n", "names a column twice"),
        (HEAD + "1,a\n", "not a valid CSV in UTF-8 with 7 fields in each line"),
        (HEAD + '1,"a', "ends inside a quoted value"),
        (HEAD.encode() + b"1,\xff,,,,,\n", "not a valid CSV in UTF-8"),
    ],
)
def test_a_csv_of_another_form_fails(body: str | bytes, text: str) -> None:
    with pytest.raises(SetupError, match=text) as caught:
        rows(body)
    assert "quota" not in str(caught.value)


def test_a_value_of_a_csv_that_does_not_fit_fails_the_day() -> None:
    for value in ("maybe,,", ",x,", ",,2026"):
        with pytest.raises(DataError, match="its value of column"):
            rows(HEAD + f"1,a,,,{value}\n")


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@settings(max_examples=300)
@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=20), st.sampled_from([",", ";", "\t", "|"]))
def test_each_value_of_a_csv_comes_back(lines: list[list[str]], delimiter: str) -> None:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "ü"], *lines])
    records = csv_records(file.getvalue().encode(), delimiter, {"a": "string"}, "x")
    assert [list(json.loads(record).values()) for record in records] == lines


def test_a_csv_longer_than_a_block_is_whole() -> None:
    body = "id,name\n" + "".join(f'{number},"{"x" * 50}\n{number}"\n' for number in range(60_000))
    records = csv_records(body.encode(), ",", {}, "x")
    assert [json.loads(record)["id"] for record in records] == [str(number) for number in range(60_000)]
    assert json.loads(records[-1])["name"] == "x" * 50 + "\n59999"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_json_lines_are_records(end: str) -> None:
    body = end.join(['{"id": 1, "name": "a"}', ' {"id": 2, "name": "\\ud83d"}', '{"id": 3, "price": 1.50}']) + end
    found = rows(body, format="json_lines", columns={"id": "bigint", "name": "string"}, undeclared="json")
    assert [(row["id"], row["name"]) for row in found] == [(1, "a"), (2, "�"), (3, None)]
    assert found[2]["document"] == '{"id": 3, "price": 1.50}'


@pytest.mark.parametrize("body", ['{"id": 1}\n{"id"', '{"id": 1},{"id": 2}\n', '{"id": 1}x', "x"])
def test_a_line_that_is_no_object_fails_the_page(body: str) -> None:
    with pytest.raises(RetriableError, match=r"line [12] of the answer"):
        rows(body, format="json_lines", columns={"id": "bigint"})


@pytest.mark.parametrize("body", ['{"id": 1}{"id": 2}', '{"id":\n1}\n{"id": 2}'])
def test_whole_objects_across_lines_are_not_lost(body: str) -> None:
    assert [row["id"] for row in rows(body, format="json_lines", columns={"id": "bigint"})] == [1, 2]


@pytest.mark.parametrize("body", ["[]", "[1]", '{"error": "x"}', "1"])
def test_a_line_without_a_key_fails_the_day(body: str) -> None:
    with pytest.raises((DataError, RetriableError)):
        rows(body, format="json_lines", columns={"id": "bigint"})


@given(st.lists(st.dictionaries(TEXTS, st.none() | st.booleans() | st.integers() | TEXTS), max_size=9))
def test_each_json_line_comes_back(records: list[dict[str, Any]]) -> None:
    body = "\n".join(json.dumps(record, ensure_ascii=False) for record in records).encode()
    found = json_line_records(body, JsonSlicer(), "x")
    assert [json.loads(bytes(record)) for record in found] == records


def test_lines_have_pages_too() -> None:
    pages = ["id,name\n1,a\n2,b\n", "id,name\n3,c\n", "id,name\n"]
    records = {"format": "csv", "key": ["id"], "columns": {"id": "bigint", "name": "string"}}
    with RestApi() as api:
        numbers = {"": 0, "0": 0, "2": 1, "3": 2}
        api.faults.append(lambda asked: Answer(raw=pages[numbers[asked.first("from")]].encode()))
        for paging in (Offset(param="from", ends="empty_page"), LastKey(param="from", ends="empty_page")):
            polled = read(api, declared("/x", paging, records=records))
            assert [n for _, _, batch in polled.batches for n in batch.column("id").to_pylist()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "records", "text"),
    [
        ({}, {"at": "data"}, "at: has no effect with format='csv'"),
        ({}, {"layout": "map"}, "layout: has no effect with format='csv'"),
        ({}, {"missing": "empty"}, "missing: has no effect with format='csv'"),
        ({}, {"format": "json_lines", "delimiter": ";"}, "delimiter: requires format='csv'"),
        ({}, {"format": "json", "delimiter": ";"}, "delimiter: requires format='csv'"),
        ({}, {"delimiter": '"'}, "delimiter: a quote or an end of line"),
        ({"paging": Cursor(at="next", param="p", ends="no_token")}, {}, "paging: reads 'next' in the body"),
        ({"count": Count(at="total")}, {}, "count.at: answers in csv have only records"),
    ],
)
def test_what_lines_cannot_have_is_refused(options: dict[str, Any], records: dict[str, Any], text: str) -> None:
    wanted = {"format": "csv", "key": ["id"], "columns": {"id": "bigint"}} | records
    with pytest.raises(ConfigError, match=text):
        declared("/x", options.pop("paging", Single()), records=wanted, **options)
