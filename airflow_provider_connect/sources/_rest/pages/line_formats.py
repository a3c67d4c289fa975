"""Converts answers in CSV and JSON lines to JSON records."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError, SetupError
from airflow_provider_connect.sources._rest.pages.answer_form import joined_names
from airflow_provider_connect.values.json.slices import JsonSlicer

if TYPE_CHECKING:
    import pyarrow as pa

_LEAST_BLOCK_BYTES, _MOST_BLOCK_BYTES = 1 << 20, 16 << 20
_HEADER_CHARACTERS = 1 << 20


def json_line_records(body: bytes, slices: JsonSlicer, label: str) -> list[Any]:
    """Return the JSON objects of an answer with one in each line. Empty lines are skipped.

    :raises RetriableError: a line is not valid JSON.
    """
    import msgspec

    try:
        return list(msgspec.json.Decoder(msgspec.Raw).decode_lines(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # one line that msgspec refuses may be valid for the slower reader
    records = []
    for number, line in enumerate(body.split(b"\n"), 1):
        record = line.strip(b" \t\r")
        if not record:
            continue
        try:
            slices.members(record)
        except (ValueError, RecursionError):
            raise RetriableError(f"{label}: line {number:,} of the answer is not a whole JSON object") from None
        records.append(record)
    return records


def csv_records(body: bytes, delimiter: str, types: Mapping[str, str], label: str) -> list[bytes]:
    """Return a JSON object for each line of a CSV with a header. Values are texts, and empty ones without quotes null.

    :param types: type of each field that the header must have. Those of type boolean become true or false.
    :raises SetupError: the header lacks a field, or lines have other numbers of fields.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = _header(body, delimiter, label)
    if missing := sorted(types.keys() - set(names)):
        raise SetupError(
            f"{label}: the header of the CSV lacks {joined_names(missing)}. Correct the columns or records.delimiter. "
            "If the answer is an error, declare it in errors"
        )
    _require_closed_quotes(body, label)
    options: dict[str, Any] = {
        "read_options": arrow_csv.ReadOptions(
            use_threads=False, block_size=max(_LEAST_BLOCK_BYTES, min(len(body) + 1, _MOST_BLOCK_BYTES))
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    }
    try:
        with arrow_csv.open_csv(pa.BufferReader(body), **options) as reader:
            return [record for batch in reader for record in _json_objects(names, types, batch)]
    except pa.ArrowInvalid:  # its text would quote a line
        raise SetupError(
            f"{label}: the answer is not a valid CSV in UTF-8 with {len(names)} fields in each line"
        ) from None


def _header(body: bytes, delimiter: str, label: str) -> list[str]:
    start = body[:_HEADER_CHARACTERS].decode("utf-8", "replace")
    try:
        names = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        raise SetupError(f"{label}: the first line of the answer is not the header of a CSV") from None
    if len(set(names)) < len(names):
        raise SetupError(f"{label}: the header of the CSV names a column twice")
    return names


def _require_closed_quotes(body: bytes, label: str) -> None:
    if body.count(b'"') % 2:
        raise SetupError(f"{label}: the CSV ends inside a quoted value, so it may be cut")


def _json_objects(names: list[str], types: Mapping[str, str], batch: pa.RecordBatch) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.compute as pc

    parts: list[Any] = []
    for number, (name, column) in enumerate(zip(names, batch.columns, strict=True)):
        parts += [
            ("{" if not number else ",") + json.dumps(name, ensure_ascii=False) + ":",
            _json_texts(column, types.get(name)),
        ]
    texts = pc.binary_join_element_wise(*parts, "}", pa.scalar(""))
    yield from texts.cast(pa.binary()).to_pylist()


def _json_texts(column: pa.Array, kind: str | None) -> pa.Array:
    """Return each value as a JSON string, or null. For a boolean also as true and false."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(column, r"[\x00-\x1f]")).as_py():
        return pa.array([json.dumps(value, ensure_ascii=False) for value in column.to_pylist()], pa.string())
    escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
    texts = pc.binary_join_element_wise('"', escaped, '"', pa.scalar(""))
    if kind == "boolean":
        lower = pc.utf8_lower(column)
        texts = pc.if_else(pc.is_in(lower, value_set=pa.array(["true", "false"])), lower, texts)
    return pc.fill_null(texts, "null")
