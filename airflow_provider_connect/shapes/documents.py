"""Reads parts of JSON documents into typed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.shapes.conversions import TimeFormat, find_cast
from airflow_provider_connect.values.arrow import type_group
from airflow_provider_connect.values.ddl import arrow_type
from airflow_provider_connect.values.json.paths import value_at_steps
from airflow_provider_connect.values.json.slices import SURROGATES, elements, members, parse_json
from airflow_provider_connect.values.json.typed import read_dates, read_decimals, read_instants, read_plain

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN = {"text": "string", "integer": "bigint", "float": "double", "boolean": "boolean"}


_BATCH_DOCUMENTS = 1024


class DocumentField(NamedTuple):
    """A new column, and the path to its value in a document."""

    name: str
    path: tuple[str, ...]
    type: str
    format: TimeFormat


class _NotJson:
    """Stands for a document that is not JSON."""


NOT_JSON: Any = _NotJson()

ReadDocuments = Callable[["pa.Array"], "tuple[list[pa.Array], Mapping[str | None, int]]"]


def make_reader(fields: Sequence[DocumentField], *, are_checked: bool) -> ReadDocuments:
    """Return a function that reads a column of JSON documents into typed columns.

    Also returns the misfits by column, and under None the texts that are not JSON.
    """
    decoder = _Decoder([field.path for field in fields], are_checked=are_checked)

    def read(documents: pa.Array) -> tuple[list[pa.Array], Mapping[str | None, int]]:
        columns, malformed = decoder.columns(documents)
        misfits: dict[str | None, int] = {None: malformed}
        arrays = []
        for field, values in zip(fields, columns, strict=True):
            array, misfits[field.name] = _typed(field, values, _sources(documents, field.path))
            arrays.append(array)
        return arrays, {name: count for name, count in misfits.items() if count}

    return read


class _Decoder:
    def __init__(self, paths: Sequence[tuple[str, ...]], *, are_checked: bool) -> None:
        import msgspec

        self._paths = paths
        self._are_checked = are_checked
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        names = dict.fromkeys(path[0] for path in paths if path)
        self._attributes = {name: f"f{at}" for at, name in enumerate(names)}
        self._form: Any = msgspec.defstruct(
            "Wanted",
            [(attribute, Any, None) for attribute in self._attributes.values()],
            rename={attribute: name for name, attribute in self._attributes.items()}.get,
            gc=False,
        )
        form: Any = Any if () in paths else self._form
        self._one = msgspec.json.Decoder(form)
        self._all = msgspec.json.Decoder(list[form | None])

    def columns(self, documents: pa.Array) -> tuple[list[list[Any]], int]:
        values_by_path: list[list[Any]] = [[] for _ in self._paths]
        malformed_total = 0
        for start in range(0, len(documents), _BATCH_DOCUMENTS):
            columns, malformed = self._decode_batch(documents[start : start + _BATCH_DOCUMENTS])
            malformed_total += malformed
            for values, batch_values in zip(values_by_path, columns, strict=True):
                values.extend(batch_values)
        return values_by_path, malformed_total

    def _decode_batch(self, documents: pa.Array) -> tuple[list[list[Any]], int]:
        if self._are_checked:
            try:
                tops = self._all.decode(_as_json_list(documents))
            except self._malformed:
                pass
            else:
                return [self._values_of_structs(tops, path) for path in self._paths], 0
        tops = [None if text is None else self._document(text) for text in documents.cast("binary").to_pylist()]
        return [[self._value_inside(top, path) for top in tops] for path in self._paths], sum(
            top is NOT_JSON for top in tops
        )

    def _document(self, text: bytes) -> Any:
        try:
            return self._one.decode(text)
        except self._malformed:
            return _document(text)

    def _values_of_structs(self, tops: Sequence[Any], path: tuple[str, ...]) -> list[Any]:
        if not path:
            return list(tops)
        attribute, inner_path = self._attributes[path[0]], path[1:]
        get = attrgetter(attribute)
        values = [getattr(top, attribute, None) for top in tops] if None in tops else list(map(get, tops))
        return [_value_inside(value, inner_path) for value in values] if inner_path else values

    def _value_inside(self, top: Any, path: tuple[str, ...]) -> Any:
        if isinstance(top, self._form):
            return _value_inside(getattr(top, self._attributes[path[0]]), path[1:])
        return _value_inside(top, path)


def _document(text: bytes) -> Any:
    try:
        return parse_json(text.decode())
    except (ValueError, RecursionError):
        return NOT_JSON


def _value_inside(value: Any, path: tuple[str, ...]) -> Any:
    value_inside = value_at_steps(value, path)
    return None if value_inside is NOT_JSON else value_inside


def _as_json_list(documents: pa.Array) -> bytes:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = documents.cast(pa.large_binary()).fill_null(b"null")
    single_list = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)
    joined_texts = pc.binary_join(single_list, pa.scalar(b",", pa.large_binary()))[0]
    return b"".join((b"[", memoryview(joined_texts.as_buffer()), b"]"))


def _sources(documents: pa.Array, path: tuple[str, ...]) -> Callable[[int], str]:
    return lambda row: _source(documents[row].as_py(), path)


def _source(json_text: str, path: tuple[str, ...]) -> str:
    for step in path:
        json_text = (
            dict(members(json_text))[step] if json_text.lstrip().startswith("{") else [*elements(json_text)][int(step)]
        )
    return json_text.strip()


def _typed(field: DocumentField, values: list[Any], source: Callable[[int], str]) -> tuple[pa.Array, int]:
    target = arrow_type(field.type)
    shape = type_group(target)
    if shape == "decimal":
        sources = {row: source(row) for row, value in enumerate(values) if type(value) is float}
        return read_decimals(values, sources, target.precision, target.scale)
    if shape == "date":
        return read_dates(values)
    if shape == "timestamp":
        return _times(field, target, values)
    types = set(map(type, values))
    if shape == "text" and not types <= {str, type(None)}:
        values = [_text(row, value, source) for row, value in enumerate(values)]
        types = set(map(type, values))
    try:
        array, misfits = read_plain(values, _PLAIN[str(shape)], types)
    except UnicodeEncodeError:
        array, misfits = read_plain(_representable(values), _PLAIN[str(shape)], types)
    return _narrowed(array, misfits, field, target)


def _narrowed(array: pa.Array, misfits: int, field: DocumentField, target: pa.DataType) -> tuple[pa.Array, int]:
    import pyarrow as pa

    if array.type == target:
        return array, misfits
    cast = find_cast(array.type, field.type, field.format)
    assert cast is not None  # an integer, a double or a text
    result = cast(array, pa.field(field.name, array.type), target)
    return result, misfits + result.null_count - array.null_count


def _times(field: DocumentField, target: pa.DataType, values: list[Any]) -> tuple[pa.Array, int]:
    types = set(map(type, values))
    if field.format == "iso" and target.tz is not None:
        return read_instants(values)
    return _narrowed(*read_plain(values, "string" if field.format == "iso" else "bigint", types), field, target)


def _text(row: int, value: Any, source: Callable[[int], str]) -> Any:
    if value is None or isinstance(value, str):
        return value
    return str(value) if type(value) is int else source(row)


def _representable(values: list[Any]) -> list[Any]:
    return [SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value for value in values]
