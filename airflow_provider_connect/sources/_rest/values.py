"""Decodes what the declared columns need of records: all records of a page at once where that can be had."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

from airflow_provider_connect.polling.places import MISSING, steps
from airflow_provider_connect.sources._rest.declared.records import Records, decimal_digits
from airflow_provider_connect.sources._rest.reading import Cut, Slices
from airflow_provider_connect.values.json.slices import NotJsonError, no_constant, not_json

_UNREPRESENTABLE = re.compile("[\ud800-\udfff]")


class Decoded(NamedTuple):
    """The values of a page's records.

    :param values: for each column, one of each record: decoded, or the field's bytes where the column needs its JSON
        text (``b""`` if missing). Of a record that cannot be read it is None.
    :param bad: by the record's number, why it cannot be read.
    :param surrogates: how many records hold half a surrogate pair, which is U+FFFD in columns.
    """

    values: dict[str, list[Any]]
    bad: dict[int, str]
    surrogates: int


def needs_text(kind: str) -> bool:
    """Tell whether a column is made of its field's JSON text: decoding would lose digits, or the form."""
    return kind == "json" or decimal_digits(kind) is not None


class Decoder:
    """Decodes the records of one source."""

    def __init__(self, records: Records, slices: Slices) -> None:
        import msgspec

        self._slices = slices
        self._ways = {name: steps(column.at or name) for name, column in records.columns.items()}
        self._texts = {name for name, column in records.columns.items() if needs_text(column.type)}
        fields = list(dict.fromkeys(way[0] for way in self._ways.values()))
        raw = {way[0] for name, way in self._ways.items() if name in self._texts}
        attributes = {field: f"f{at}" for at, field in enumerate(fields)}
        wanted: Any = msgspec.defstruct(
            "Wanted",
            [
                (attributes[one], msgspec.Raw, msgspec.Raw()) if one in raw else (attributes[one], Any, None)
                for one in fields
            ],
            rename={attribute: field for field, attribute in attributes.items()}.get,
            gc=False,
            forbid_unknown_fields=False,
        )
        self._all = msgspec.json.Decoder(list[wanted])
        self._one = msgspec.json.Decoder(wanted)
        self._known = frozenset(fields)
        self._raw = raw
        self._getters = {name: self._getter(name, attributes[way[0]]) for name, way in self._ways.items()}
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def decode(self, cut: Cut) -> Decoded:
        """Return the values of a page."""
        bad: dict[int, str] = {}
        surrogates = 0
        unread: list[int] = []
        try:
            rows: list[Any] = self._all.decode(cut.listed) if cut.records else []
        except self._malformed:
            rows = []
            for number, record in enumerate(cut.records):
                try:
                    rows.append(self._one.decode(record))
                except self._malformed:
                    rows.append(None)
                    unread.append(number)
        values = {name: _column(rows, getter, unread) for name, getter in self._getters.items()}
        for number in unread:
            try:
                found_here, has_surrogates = self._slowly(bytes(cut.records[number]))
            except NotJsonError as error:
                bad[number] = str(error)
                found_here, has_surrogates = dict.fromkeys(self._ways), False
            surrogates += has_surrogates
            for name, value in found_here.items():
                values[name][number] = value
        return Decoded(values, bad, surrogates)

    def undeclared(self, cut: Cut) -> dict[int, list[str]]:
        """Return the names of the fields that no column needs, by the number of their record."""
        others: dict[int, list[str]] = {}
        for number, record in enumerate(cut.records):
            try:
                names = self._slices.members(record).keys() - self._known
            except ValueError:
                continue  # what is no object is told as that
            if names:
                others[number] = sorted(names)
        return others

    def source(self, record: Any, name: str) -> str | None:
        """Return the JSON text of a column's field in a record; None if it cannot be found."""
        try:
            raw = self._slices.at(record, self._ways[name])
            return None if raw is MISSING else bytes(raw).decode()
        except (ValueError, RecursionError):
            return None

    def _getter(self, name: str, attribute: str) -> Callable[[Any], Any]:
        get, way = attrgetter(attribute), self._ways[name]
        if len(way) == 1 and way[0] in self._raw:
            if name in self._texts:
                return lambda row: bytes(get(row))
            return lambda row: _loaded(bytes(get(row)))
        if len(way) == 1:
            return get
        if way[0] in self._raw:
            inside = way[1:]

            def cut_out(row: Any) -> Any:
                raw = bytes(get(row))
                part = self._slices.at(raw, inside) if raw else MISSING
                text = b"" if part is MISSING else bytes(part)
                return text if name in self._texts else _loaded(text)

            return cut_out
        return _deeper(get, way[1:])

    def _slowly(self, record: bytes) -> tuple[dict[str, Any], bool]:
        """Read a record that msgspec does not.

        :raises NotJsonError: it is no JSON object, either.
        """
        try:
            text = record.decode()
        except UnicodeDecodeError as error:
            raise NotJsonError(f"invalid UTF-8 at its byte {error.start}") from None
        try:
            document = json.loads(text, parse_constant=no_constant)
        except (ValueError, RecursionError) as error:
            raise not_json(error) from None
        if not isinstance(document, dict):
            raise NotJsonError("it is no JSON object")
        values: dict[str, Any] = {}
        has_surrogates = False
        for name, way in self._ways.items():
            value: Any = document
            for step in way:
                value = value.get(step) if isinstance(value, dict) else None
            if name in self._texts:
                raw = self._slices.at(record, way)
                value = b"" if raw is MISSING else bytes(raw)
            elif isinstance(value, str) and _UNREPRESENTABLE.search(value):
                value, has_surrogates = _UNREPRESENTABLE.sub("\ufffd", value), True
            values[name] = value
        return values, has_surrogates


def _column(rows: list[Any], getter: Callable[[Any], Any], unread: list[int]) -> list[Any]:
    if unread:
        return [None if row is None else getter(row) for row in rows]
    return list(map(getter, rows))


def _deeper(get: Callable[[Any], Any], way: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return what finds a value inside a decoded one; None if it is not there."""
    first, others = way[0], way[1:]

    def deeper(row: Any) -> Any:
        value = get(row)
        if not others and type(value) is dict:  # what nearly all are
            return value.get(first)
        for step in way:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
                value = value[int(step)]
            else:
                return None
        return value

    return deeper


def _loaded(text: bytes) -> Any:
    return json.loads(text) if text else None
