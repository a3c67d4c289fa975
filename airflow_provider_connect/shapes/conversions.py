"""Casts columns to other types and to text. Values that do not fit become NULL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.values.arrays import as_binary, join_pieces, without_dictionary
from airflow_provider_connect.values.arrow import inner_types, type_group
from airflow_provider_connect.values.ddl import arrow_type
from airflow_provider_connect.values.json.text import JsonWriter
from airflow_provider_connect.values.json.typed import read_dates, read_decimals, read_instants
from airflow_provider_connect.values.times import TIME_GROUPS as TIMES
from airflow_provider_connect.values.times import iso_texts

if TYPE_CHECKING:
    import pyarrow as pa

TimeFormat = Literal["iso", "epoch_s", "epoch_ms", "epoch_us"]

CastFunction = Callable[["pa.Array", "pa.Field", "pa.DataType"], "pa.Array"]
"""Casts a column, given as array, field and target type."""

_INTEGER = r"\A-?[0-9]+\z"
_NUMBER = r"\A-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\z"
_BOOLEAN = r"(?i)\A(true|false|1|0)\z"
_WITH_OFFSET = r"[T ].*[Zz+-]"
_UNITS = {"epoch_s": "s", "epoch_ms": "ms", "epoch_us": "us"}
_MICROS = {"epoch_s": 10**6, "epoch_ms": 10**3, "epoch_us": 1}
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""First and last microsecond of the years 1 to 9999, since 1970."""


def find_cast(kind: pa.DataType, name: str, time_format: TimeFormat) -> CastFunction | None:
    """Return a function that casts one type to another, or None.

    :param name: target type.
    :param time_format: unit of numeric times, or ``iso`` for none.
    """
    target = arrow_type(name)
    source_group, target_group = type_group(kind), type_group(target)
    if "timestamp" in (source_group, target_group) and "integer" in (source_group, target_group):
        if time_format == "iso":
            return None
        return _from_epoch(time_format) if target_group == "timestamp" else _to_epoch(time_format)
    if source_group is None:
        return None
    if source_group == "null":
        return lambda array, _, to: array.cast(to)
    if target_group == "text":
        return lambda array, field, _: as_text(array, field)
    return _casts().get((source_group, target_group or ""))


def _casts() -> dict[tuple[str, str], CastFunction]:
    plain = {
        ("boolean", "boolean"), ("boolean", "integer"), ("integer", "integer"), ("integer", "float"),
        ("float", "integer"), ("decimal", "integer"), ("decimal", "decimal"), ("binary", "binary"), ("text", "binary"),
        ("date", "date"),
    }  # fmt: skip
    return dict.fromkeys(plain, lambda array, _, to: cast_or_null(array, to)) | {
        ("integer", "boolean"): _zero_or_one,
        ("integer", "decimal"): lambda array, _, to: _decimals(array.cast("string"), to),
        ("float", "decimal"): lambda array, _, to: _decimals(array.cast("string"), to),
        ("float", "float"): lambda array, _, to: _null_if_overflown(array, array.cast(to)),
        ("decimal", "float"): lambda array, _, to: array.cast("string").cast(to),
        ("text", "boolean"): lambda array, _, to: _null_unless_matching(array, _BOOLEAN).cast(to),
        ("text", "integer"): lambda array, _, to: cast_or_null(_null_unless_matching(array, _INTEGER), to),
        ("text", "float"): lambda array, _, to: _numbers(array, to),
        ("text", "decimal"): lambda array, _, to: _decimals(array, to),
        ("text", "date"): lambda array, _, to: read_dates(array.to_pylist())[0],
        ("text", "timestamp"): _times,
        ("date", "timestamp"): lambda array, _, to: cast_or_null(array, to),
        ("timestamp", "timestamp"): lambda array, _, to: cast_or_null(_in_utc(array), _unzoned(to)).cast(to),
        ("timestamp", "date"): lambda array, _, to: _in_utc(array).cast(to),
    }


def cast_values(cast: CastFunction, array: pa.Array, field: pa.Field, to: pa.DataType) -> tuple[pa.Array, int]:
    """Return a column with another type, and the number of values that became NULL."""
    plain = without_dictionary(array)
    result = cast(plain, field, to)
    return result, result.null_count - plain.null_count


def cast_or_null(array: pa.Array, to: pa.DataType) -> pa.Array:
    """Cast a column with Arrow. Values that Arrow refuses become NULL."""
    import pyarrow as pa

    try:
        return array.cast(to)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, to)
        middle = len(array) // 2
        return pa.concat_arrays([cast_or_null(array[:middle], to), cast_or_null(array[middle:], to)])


def _null_unless_matching(array: pa.Array, pattern: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = array.cast(pa.large_string())
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, texts.type))


def _numbers(array: pa.Array, to: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    floats = _null_unless_matching(array, _NUMBER).cast(to)
    return pc.if_else(pc.is_finite(floats), floats, pa.scalar(None, to))


def _null_if_overflown(array: pa.Array, floats: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    overflown = pc.and_(pc.is_finite(array), pc.invert(pc.is_finite(floats)))
    return pc.if_else(overflown, pa.scalar(None, floats.type), floats)


def _zero_or_one(array: pa.Array, _: pa.Field, to: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    fits = pc.and_(pc.greater_equal(array, pa.scalar(0, array.type)), pc.less_equal(array, pa.scalar(1, array.type)))
    return pc.if_else(fits, array, pa.scalar(None, array.type)).cast(to)


def _decimals(array: pa.Array, to: pa.DataType) -> pa.Array:
    texts = _null_unless_matching(array, _NUMBER).to_pylist()
    marks = [None if text is None else 0.0 for text in texts]
    sources = {row: text for row, text in enumerate(texts) if text is not None}
    return read_decimals(marks, sources, to.precision, to.scale)[0]


def _times(array: pa.Array, _: pa.Field, to: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if to.tz is None:  # wall clock times have no offset
        texts = array.cast(pa.large_string())
        has_offset = pc.match_substring_regex(texts, _WITH_OFFSET)
        array = pc.if_else(has_offset, pa.scalar(None, texts.type), texts)
    return read_instants(array.to_pylist())[0].cast(to)


def _in_utc(array: pa.Array) -> pa.Array:
    return array.cast(_unzoned(array.type))


def _unzoned(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return pa.timestamp(kind.unit)


def _from_epoch(time_format: TimeFormat) -> CastFunction:
    def times(array: pa.Array, _: pa.Field, to: pa.DataType) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        micros, numbers = _MICROS[time_format], cast_or_null(array, pa.int64())
        fits = pc.and_(pc.greater_equal(numbers, -(-_FIRST // micros)), pc.less_equal(numbers, _LAST // micros))
        fitting = pc.if_else(fits, numbers, pa.scalar(None, pa.int64()))
        return pc.multiply(fitting, micros).cast(pa.timestamp("us")).cast(to)

    return times


def _to_epoch(time_format: TimeFormat) -> CastFunction:
    def numbers(array: pa.Array, _: pa.Field, to: pa.DataType) -> pa.Array:
        import pyarrow as pa

        return cast_or_null(cast_or_null(_in_utc(array), pa.timestamp(_UNITS[time_format])).cast(pa.int64()), to)

    return numbers


def has_text(kind: pa.DataType) -> bool:
    """Return True if values of this type have a text (:func:`as_text`)."""
    return type_group(kind) is not None and all(has_text(part) for part in inner_types(kind))


def as_text(array: pa.Array, field: pa.Field) -> pa.Array:
    """Return a column as ``string``: numbers and times as in JSON, bytes as UTF-8, nested values as JSON documents.

    NULL replaces bytes that are not UTF-8, NaN in a document, and years after 9999.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    array = without_dictionary(array)
    shape = type_group(array.type)
    refused = np.zeros(len(array), bool)

    def refuse(rows: Any, _: str) -> None:
        refused[rows] = True

    if shape == "null":
        return pa.nulls(len(array), pa.string())
    if shape == "text":
        return array.cast(pa.string())
    if shape == "binary":
        return _utf8(as_binary(array))
    if shape in ("struct", "list", "map"):
        texts = join_pieces(JsonWriter().pieces(array, field, refuse), len(array))
    elif shape in TIMES:
        texts = iso_texts(array, refuse)
    else:
        return array.cast(pa.string())
    refused_mask = pa.array(refused)
    missing_mask = pc.or_(refused_mask, array.is_null())
    return pc.if_else(missing_mask, pa.scalar(None, texts.type), texts).cast(pa.string())


def _utf8(array: pa.Array) -> pa.Array:
    import pyarrow as pa

    try:
        return array.cast(pa.large_string()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in array.to_pylist()], pa.string())


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
