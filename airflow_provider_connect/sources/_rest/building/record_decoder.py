"""Decodes the fields that columns need, if possible a whole page in one call."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

from airflow_provider_connect.sources._rest.pages.page_parser import PageParts
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.values.json.paths import MISSING, path_steps, value_at_steps
from airflow_provider_connect.values.json.slices import SURROGATES, JsonSlicer, NotJsonError, decode_utf8, parse_json
from airflow_provider_connect.values.json.typed import decimal_digits

_MAX_OTHER_FIELDS = 64

FieldValues = list[tuple[Any, ...]]


class UndeclaredFields(NamedTuple):
    """Fields of a page that no column uses.

    :param records: records with such a field.
    """

    records: int
    names: list[str]


class DecodedRecords(NamedTuple):
    """Values of a page's records.

    :param values: by column, one value per record, None for an unreadable record. A column that needs JSON text has
        bytes, ``b""`` if missing.
    :param unreadable: reason, by position on the page.
    :param lone_surrogates: records with half a surrogate pair, which becomes U+FFFD in columns.
    :param undeclared: only filled if such fields are counted or refused.
    """

    values: dict[str, list[Any]]
    unreadable: dict[int, str]
    lone_surrogates: int
    undeclared: UndeclaredFields


def needs_json_text(kind: str) -> bool:
    """Return True if decoding would change a column's digits or layout."""
    return kind == "json" or decimal_digits(kind) is not None


class _FastDecoder:
    """Decodes a whole page in one msgspec call, if all its records have the expected form.

    :param fields: msgspec type of each field that a column uses.
    :param knows_all: refuse a page with an unknown field.
    :param is_partial: msgspec skips parts of the records, so their UTF-8 is checked separately.
    """

    def __init__(self, fields: Mapping[str, Any], *, knows_all: bool, is_partial: bool) -> None:
        import msgspec

        self.knows_all = knows_all
        self._is_partial = is_partial
        self._fields = dict(fields)
        self._other_fields: dict[str, Any] = {}
        self._decoder: Any = None
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
        self.learn(())

    def learn(self, names: Iterable[str]) -> None:
        """Add undeclared fields to those that are decoded fast."""
        import msgspec

        self._other_fields |= dict.fromkeys(names, msgspec.Raw)
        self._decoder = None
        if len(self._other_fields) <= _MAX_OTHER_FIELDS:  # records with ever new fields are cheaper without learning
            with suppress(ValueError):
                form: Any = _record_type(self._fields | self._other_fields, is_strict=self.knows_all)
                self._decoder = msgspec.json.Decoder(list[form])

    def columns(self, records_json: bytes) -> tuple[FieldValues, UndeclaredFields] | None:
        """Return the values by field. None if a record has another form or an unknown field."""
        if self._decoder is None:
            return None
        try:
            if self._is_partial:
                records_json.decode()  # msgspec does not check skipped bytes
            rows: list[Any] = self._decoder.decode(records_json)
        except self._malformed:
            return None
        field_values = _columns(rows)
        others = dict(zip(self._other_fields, field_values[len(self._fields) :], strict=True))
        present = sorted(name for name, values in others.items() if any(values))
        if any(all(others[name]) for name in present):
            return field_values, UndeclaredFields(len(rows), present)
        return field_values, UndeclaredFields(
            sum(map(any, zip(*(others[name] for name in present), strict=True))), present
        )


class RecordDecoder:
    """Decodes the records of one source's pages."""

    def __init__(self, records: Records, slices: JsonSlicer) -> None:
        import msgspec

        self._slices = slices
        self._paths = {name: path_steps(column.at or name) for name, column in records.columns.items()}
        self._texts = {name for name, column in records.columns.items() if needs_json_text(column.type)}
        fields = list(dict.fromkeys(path[0] for path in self._paths.values()))
        self._raw = {path[0] for name, path in self._paths.items() if name in self._texts}
        self._fields = {field: msgspec.Raw if field in self._raw else Any for field in fields}
        form: Any = _record_type(self._fields)
        self._empty_record = form()
        self._all = msgspec.json.Decoder(list[form])
        self._one = msgspec.json.Decoder(form)
        self._getters = {name: self._getter(name) for name in self._paths}
        # From objects with nested columns, msgspec decodes only the needed fields.
        inner = {field: names for field in fields if (names := self._subfields_needed(field))}
        quick = self._fields | {field: _record_type(dict.fromkeys(names, Any)) | None for field, names in inner.items()}
        # A field kept as text may contain invalid UTF-8, and another column may read inside it.
        self._looks_into_texts = any(
            path[0] in self._raw and name not in self._texts for name, path in self._paths.items()
        )
        is_partial = bool(inner) or self._looks_into_texts
        self._fast_decoder = _FastDecoder(quick, knows_all=records.undeclared != "json", is_partial=is_partial)
        self._fast_getters = self._getters | {
            name: _attribute_getter(f"f{inner[path[0]].index(path[1])}")
            for name, path in self._paths.items()
            if path[0] in inner
        }
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def decode(self, page: PageParts) -> DecodedRecords:
        """Return the column values of a page with at least one record."""
        unreadable: dict[int, str] = {}
        surrogates = 0
        unread: list[int] = []
        getters = self._fast_getters
        if (fields_and_undeclared := self._fast_decoder.columns(page.records_json)) is None:
            getters, fields_and_undeclared = self._getters, self._columns(page, unread)
        by_field = dict(zip(self._fields, fields_and_undeclared[0], strict=False))
        values = {name: get(by_field[self._paths[name][0]]) for name, get in getters.items()}
        for number in unread:
            try:
                slow_values, has_surrogates = self._decode_slowly(bytes(page.records[number]))
            except NotJsonError as error:
                unreadable[number] = str(error)
                slow_values, has_surrogates = dict.fromkeys(self._paths), False
            surrogates += has_surrogates
            for name, value in slow_values.items():
                values[name][number] = value
        return DecodedRecords(values, unreadable, surrogates, fields_and_undeclared[1])

    def _columns(self, page: PageParts, unread: list[int]) -> tuple[FieldValues, UndeclaredFields]:
        """Return the values by field, slower, also of records with unknown fields.

        :param unread: receives the position of each record that msgspec cannot read.
        """
        undeclared = self._undeclared(page) if self._fast_decoder.knows_all else UndeclaredFields(0, [])
        try:
            self._require_text(page.records_json)
            return _columns(self._all.decode(page.records_json)), undeclared
        except self._malformed:
            rows = []
            for number, record in enumerate(page.records):
                try:
                    self._require_text(record)
                    rows.append(self._one.decode(record))
                except self._malformed:
                    rows.append(self._empty_record)
                    unread.append(number)
            return _columns(rows), undeclared

    def _require_text(self, encoded: Any) -> None:
        if self._looks_into_texts:
            bytes(encoded).decode()

    def _undeclared(self, page: PageParts) -> UndeclaredFields:
        names: set[str] = set()
        records = 0
        for record in page.records:
            try:
                others = self._slices.members(record).keys() - self._fields.keys()
            except ValueError:
                continue  # reported elsewhere as not an object
            records += bool(others)
            names |= others
        self._fast_decoder.learn(names)
        return UndeclaredFields(records, sorted(names))

    def json_text(self, record: Any, name: str) -> str | None:
        """Return the JSON text of a column's field. None if it is missing or not UTF-8."""
        try:
            raw = self._slices.value_at(record, self._paths[name])
            return None if raw is MISSING else bytes(raw).decode()
        except (ValueError, RecursionError):
            return None

    def _subfields_needed(self, field: str) -> list[str]:
        paths = [path for path in self._paths.values() if path[0] == field]
        if field in self._raw or any(len(path) != 2 or path[1].isdigit() for path in paths):
            return []
        return list(dict.fromkeys(path[1] for path in paths))

    def _getter(self, name: str) -> Callable[[Sequence[Any]], list[Any]]:
        path, is_text = self._paths[name], name in self._texts
        if path[0] not in self._raw:
            return list if len(path) == 1 else _nested_getter(path[1:])

        def text_of(raw: Any) -> bytes:
            text = bytes(raw)
            if len(path) == 1 or not text:
                return text
            part = self._slices.value_at(text, path[1:])
            return b"" if part is MISSING else bytes(part)

        if is_text:
            return lambda values: list(map(text_of, values))
        return lambda values: [_decode_or_text(text_of(value)) for value in values]

    def _decode_slowly(self, record: bytes) -> tuple[dict[str, Any], bool]:
        """Decode a record that msgspec refuses.

        :raises NotJsonError: the record is not a JSON object.
        """
        document = parse_json(decode_utf8(record))
        if not isinstance(document, dict):
            raise NotJsonError("it is not a JSON object")
        values: dict[str, Any] = {}
        has_surrogates = False
        for name, path in self._paths.items():
            value = value_at_steps(document, path)
            if name in self._texts:
                raw = self._slices.value_at(record, path)
                value = b"" if raw is MISSING else bytes(raw)
            elif isinstance(value, str) and SURROGATES.search(value):
                value, has_surrogates = SURROGATES.sub("\ufffd", value), True
            values[name] = value
        return values, has_surrogates


def _record_type(fields: Mapping[str, Any], *, is_strict: bool = False) -> Any:
    import msgspec

    attributes = {f"f{at}": name for at, name in enumerate(fields)}
    return msgspec.defstruct(
        "Wanted",
        [
            (attribute, fields[name], msgspec.Raw() if fields[name] is msgspec.Raw else None)
            for attribute, name in attributes.items()
        ],
        rename=attributes.get,
        gc=False,
        forbid_unknown_fields=is_strict,
    )


def _attribute_getter(name: str) -> Callable[[Sequence[Any]], list[Any]]:
    get = attrgetter(name)

    def attribute(values: Sequence[Any]) -> list[Any]:
        if None in values:
            return [None if value is None else get(value) for value in values]
        return list(map(get, values))

    return attribute


def _columns(rows: list[Any]) -> FieldValues:
    from msgspec.structs import astuple

    return list(zip(*map(astuple, rows), strict=True))


def _nested_getter(path: tuple[str, ...]) -> Callable[[Sequence[Any]], list[Any]]:
    first, is_last = path[0], len(path) == 1

    def all_inside(values: Sequence[Any]) -> list[Any]:
        if is_last:  # and nearly all are objects
            return [value.get(first) if type(value) is dict else value_at_steps(value, path) for value in values]
        return [value_at_steps(value, path) for value in values]

    return all_inside


def _decode_or_text(text: bytes) -> Any:
    """Decode a JSON value. A number with too many digits stays text."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return text
