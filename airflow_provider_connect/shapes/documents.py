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


_AT_ONCE = 1024
"""How many documents are decoded in one go: what fits into a processor's cache is read in two thirds of the time."""


class DocumentField(NamedTuple):
    """A column, and the way to its value in a document."""

    name: str
    path: tuple[str, ...]
    type: str
    format: TimeFormat


class _NoJson:
    """Stands for a document that is none."""


NOT_JSON: Any = _NoJson()

ReadDocuments = Callable[["pa.Array"], "tuple[list[pa.Array], Mapping[str | None, int]]"]


def make_reader(fields: Sequence[DocumentField], *, are_checked: bool) -> ReadDocuments:
    """Return what reads a column of documents: the wanted columns, and how many values do not fit, by column.

    Those of None are the texts that are no JSON.

    :param are_checked: whether every text is known to be JSON.
    """
    decoder = _Decoder([one.path for one in fields], are_checked=are_checked)

    def read(documents: pa.Array) -> tuple[list[pa.Array], Mapping[str | None, int]]:
        columns, none = decoder.columns(documents)
        misfits: dict[str | None, int] = {None: none}
        found = []
        for one, values in zip(fields, columns, strict=True):
            array, misfits[one.name] = _typed(one, values, _sources(documents, one.path))
            found.append(array)
        return found, {name: bad for name, bad in misfits.items() if bad}

    return read


class _Decoder:
    """Decodes of documents what is wanted: all documents of a batch in one go where that can be had."""

    def __init__(self, ways: Sequence[tuple[str, ...]], *, are_checked: bool) -> None:
        import msgspec

        self._ways = ways
        self._are_checked = are_checked
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        names = dict.fromkeys(way[0] for way in ways if way)
        self._attributes = {name: f"f{at}" for at, name in enumerate(names)}
        self._form: Any = msgspec.defstruct(
            "Wanted",
            [(attribute, Any, None) for attribute in self._attributes.values()],
            rename={attribute: name for name, attribute in self._attributes.items()}.get,
            gc=False,
        )
        form: Any = Any if () in ways else self._form
        self._one = msgspec.json.Decoder(form)
        self._all = msgspec.json.Decoder(list[form | None])

    def columns(self, documents: pa.Array) -> tuple[list[list[Any]], int]:
        """Return for each way the value in each document, None where there is none; and how many are no JSON."""
        found: list[list[Any]] = [[] for _ in self._ways]
        none = 0
        for start in range(0, len(documents), _AT_ONCE):
            columns, bad = self._some(documents[start : start + _AT_ONCE])
            none += bad
            for values, more in zip(found, columns, strict=True):
                values.extend(more)
        return found, none

    def _some(self, documents: pa.Array) -> tuple[list[list[Any]], int]:
        if self._are_checked:
            try:
                tops = self._all.decode(_listed(documents))
            except self._malformed:
                pass
            else:
                return [self._quickly(tops, way) for way in self._ways], 0
        tops = [None if text is None else self._document(text) for text in documents.cast("binary").to_pylist()]
        return [[self._inside(top, way) for top in tops] for way in self._ways], sum(top is NOT_JSON for top in tops)

    def _document(self, text: bytes) -> Any:
        try:
            return self._one.decode(text)
        except self._malformed:
            return _document(text)

    def _quickly(self, tops: Sequence[Any], way: tuple[str, ...]) -> list[Any]:
        if not way:
            return list(tops)
        attribute, rest = self._attributes[way[0]], way[1:]
        get = attrgetter(attribute)
        values = [getattr(top, attribute, None) for top in tops] if None in tops else list(map(get, tops))
        return [_inside(value, rest) for value in values] if rest else values

    def _inside(self, top: Any, way: tuple[str, ...]) -> Any:
        if isinstance(top, self._form):
            return _inside(getattr(top, self._attributes[way[0]]), way[1:])
        return _inside(top, way)


def _document(text: bytes) -> Any:
    """Return what msgspec does not read: half a surrogate pair, a document that is no object."""
    try:
        return parse_json(text.decode())
    except (ValueError, RecursionError):
        return NOT_JSON


def _inside(value: Any, way: tuple[str, ...]) -> Any:
    found = value_at_steps(value, way)
    return None if found is NOT_JSON else found


def _listed(documents: pa.Array) -> bytes:
    """Return documents as one JSON list, without a Python object for each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = documents.cast(pa.large_binary()).fill_null(b"null")
    one = pa.LargeListArray.from_arrays(pa.array([0, len(texts)], pa.int64()), texts)
    joined = pc.binary_join(one, pa.scalar(b",", pa.large_binary()))[0]
    return b"".join((b"[", memoryview(joined.as_buffer()), b"]"))


def _sources(documents: pa.Array, way: tuple[str, ...]) -> Callable[[int], str]:
    return lambda row: _source(documents[row].as_py(), way)


def _source(found: str, way: tuple[str, ...]) -> str:
    """Return the JSON text of the value at the end of a way that is there."""
    for step in way:
        found = dict(members(found))[step] if found.lstrip().startswith("{") else [*elements(found)][int(step)]
    return found.strip()


def _typed(one: DocumentField, values: list[Any], source: Callable[[int], str]) -> tuple[pa.Array, int]:
    target = arrow_type(one.type)
    shape = type_group(target)
    if shape == "decimal":
        sources = {row: source(row) for row, value in enumerate(values) if type(value) is float}
        return read_decimals(values, sources, target.precision, target.scale)
    if shape == "date":
        return read_dates(values)
    if shape == "timestamp":
        return _times(one, target, values)
    types = set(map(type, values))
    if shape == "text" and not types <= {str, type(None)}:
        values = [_text(row, value, source) for row, value in enumerate(values)]
        types = set(map(type, values))
    try:
        array, bad = read_plain(values, _PLAIN[str(shape)], types)
    except UnicodeEncodeError:
        array, bad = read_plain(_representable(values), _PLAIN[str(shape)], types)
    return _narrowed(array, bad, one, target)


def _narrowed(array: pa.Array, bad: int, one: DocumentField, target: pa.DataType) -> tuple[pa.Array, int]:
    import pyarrow as pa

    if array.type == target:
        return array, bad
    cast = find_cast(array.type, one.type, one.format)
    assert cast is not None  # an integer, a double or a text
    made = cast(array, pa.field(one.name, array.type), target)
    return made, bad + made.null_count - array.null_count


def _times(one: DocumentField, target: pa.DataType, values: list[Any]) -> tuple[pa.Array, int]:
    types = set(map(type, values))
    if one.format == "iso" and target.tz is not None:
        return read_instants(values)
    return _narrowed(*read_plain(values, "string" if one.format == "iso" else "bigint", types), one, target)


def _text(row: int, value: Any, source: Callable[[int], str]) -> Any:
    if value is None or isinstance(value, str):
        return value
    return str(value) if type(value) is int else source(row)


def _representable(values: list[Any]) -> list[Any]:
    """Return texts with U+FFFD for half a surrogate pair, which no column holds."""
    return [SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value for value in values]
