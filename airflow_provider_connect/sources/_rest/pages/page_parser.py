"""Splits a page into its encoded records and the values that the paging needs.

msgspec decodes a page of the declared form in one call. Other pages are split level by level, and JSON that msgspec
refuses by a slower reader, so that only the affected record fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigError, RetriableError, SetupError
from airflow_provider_connect.sources._rest.pages.answer_form import describe_json, joined_names
from airflow_provider_connect.sources._rest.pages.fast_pages import EVERY, FastPageDecoder
from airflow_provider_connect.sources._rest.pages.line_formats import csv_records, json_line_records
from airflow_provider_connect.sources._rest.pages.outer_fields import OuterFields
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.values.json.paths import MISSING, path_steps, suggest_pointer
from airflow_provider_connect.values.json.slices import JsonSlicer

_SPACE = b" \t\r\n"
_JSON_STARTS = (b"{", b"[")


class PageParts(NamedTuple):
    """Records and other values of one page.

    :param records: each record's JSON, in order.
    :param records_json: all records as one JSON array, without space between them.
    :param page_values: decoded values by path, or :data:`MISSING`.
    :param item_count: elements that hold the lists of records, if ``records.at`` has :data:`EVERY`.
    """

    records: list[Any]
    records_json: bytes
    page_values: dict[str, Any]
    item_count: int | None = None

    @property
    def paged_count(self) -> int:
        """Number of elements that the API pages: records, or the elements that hold lists of them."""
        return len(self.records) if self.item_count is None else self.item_count


class _Layout:
    def __init__(self, records: Records) -> None:
        self._kind = records.layout
        self._name_field = records.name_field
        self._name_json = json.dumps(records.name_field).encode()
        self._value_json = json.dumps(records.value_field).encode()
        self.first_byte = b"[" if records.layout in ("list", "values") else b"{"
        self.noun = "list of records" if self.first_byte == b"[" else "object with records"

    def records(self, data: bytes, slices: JsonSlicer, label: str) -> list[Any]:
        """Return the records in a list or an object.

        :raises ValueError: the data is not valid JSON.
        :raises SetupError: a map's entry already has the field for its name.
        """
        if self._kind == "list":
            return slices.elements(data)
        if self._kind == "object":
            slices.members(data)  # checks that it is whole
            return [data]
        if self._kind == "values":
            return [b"{%b:%b}" % (self._value_json, bytes(value)) for value in slices.elements(data)]
        return [self._entry(name, bytes(value), slices, label) for name, value in slices.members(data).items()]

    def _entry(self, name: str, value: bytes, slices: JsonSlicer, label: str) -> bytes:
        name_json = json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass")
        if value[:1] != b"{":
            return b"{%b:%b,%b:%b}" % (self._name_json, name_json, self._value_json, value)
        fields = slices.members(value)
        if self._name_field in fields:
            raise SetupError(
                f"{label}: an entry has a field {self._name_field!r} of its own. Set records.name_field to another "
                "name, which receives the name of the entry"
            )
        return b"{%b:%b%b%b" % (self._name_json, name_json, b"," if fields else b"", value[1:])


class PageParser:
    """Splits the pages of one source."""

    def __init__(self, records: Records, value_paths: Iterable[str]) -> None:
        self._records_path = path_steps(records.at)
        self._at = records.at
        self._spreads = EVERY in self._records_path
        self._outer_path = (
            self._records_path[: self._records_path.index(EVERY)] if self._spreads else self._records_path
        )
        self._layout = _Layout(records)
        self._outer_fields = OuterFields(records)
        self._format = records.format
        self._delimiter = records.delimiter
        self._types = {path_steps(column.at or name)[0]: column.type for name, column in records.columns.items()}
        self._missing = records.missing
        self._empty_has = records.empty_has
        self._value_paths = {path: path_steps(path) for path in value_paths}
        is_list = records.layout == "list"
        self._fast_decoder = FastPageDecoder.for_paths(self._records_path, self._value_paths) if is_list else None
        self.slices = JsonSlicer()

    def parse(self, body: bytes, label: str, *, is_announced: bool = False) -> PageParts:
        """Split a page into its parts.

        :param is_announced: the page before this one named it.
        :raises RetriableError: the page is not complete JSON.
        :raises SetupError: the page has no records at the declared path, and is no empty page.
        :raises ConfigError: a path is written with dots instead of as a JSON Pointer.
        """
        if self._format != "json":
            lines = self._line_records(body, label)
            return PageParts(lines, _as_json_array(lines), {})
        decoded_page = None if self._fast_decoder is None else self._fast_decoder.decode(body)
        if decoded_page is not None:
            records, raw = decoded_page
            for path, value in raw.items():
                if value is MISSING:
                    self._refuse_dotted_name(body, path, label)
            return PageParts(records, _as_json_array(records), _decode_values(raw))
        body = body.strip(_SPACE)
        try:
            # Each level of the path is split once, for the records and the other values.
            level: dict[tuple[str, ...], Any] = {(): body}
            places = self._values_at(level, (), self._records_path)
            outer_values = [self._outer_fields.values_for(place, partial(self._value_at, level)) for place, _ in places]
            raw = {path: self._value_at(level, value_steps) for path, value_steps in self._value_paths.items()}
        except (ValueError, RecursionError):  # the error's text would quote the page
            raise _unreadable_error(label, body) from None
        lacks_records = [value for _, value in places] == [MISSING] and self._value_at(
            level, self._outer_path
        ) is MISSING
        for path in (self._at, *self._value_paths):
            if lacks_records if path == self._at else raw[path] is MISSING:
                self._refuse_dotted_name(body, path, label)
        if lacks_records and self._missing == "empty":
            self._require_empty_page(body, label, lacks_all=is_announced and all(v is MISSING for v in raw.values()))
        all_records: list[Any] = []
        for (_, raw_list), values in zip(places, outer_values, strict=True):
            all_records += self._outer_fields.add(self._elements(raw_list, body, label), values, self.slices, label)
        items = self._outer_count(level) if self._spreads else None
        return PageParts(all_records, _as_json_array(all_records), _decode_values(raw), items)

    def _line_records(self, body: bytes, label: str) -> list[Any]:
        if self._format == "csv":
            return csv_records(body, self._delimiter, self._types, label)
        return json_line_records(body, self.slices, label)

    def parse_values(self, body: bytes, label: str) -> dict[str, Any]:
        """Return only the values at ``value_paths``. Raises the errors of :meth:`parse`."""
        level: dict[tuple[str, ...], Any] = {(): body.strip(_SPACE)}
        try:
            raw = {path: self._value_at(level, value_steps) for path, value_steps in self._value_paths.items()}
        except (ValueError, RecursionError):
            raise _unreadable_error(label, body) from None
        return _decode_values(raw)

    def value_in_last_record(self, page: PageParts, path: str) -> Any:
        """Return the decoded value at a path in the last record, or None."""
        if not page.records:
            return None
        raw = self.slices.value_at(page.records[-1], path_steps(path))
        return None if raw is MISSING else _decoded(raw)

    def _value_at(self, level: dict[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
        """Return the value at a path. ``level`` caches each value on the way by its path."""
        for depth in range(len(path)):
            container = level[path[:depth]]
            if path[: depth + 1] in level:
                continue
            if container is MISSING:
                return MISSING
            data = bytes(container)
            if data[:1] == b"{":
                level |= {(*path[:depth], name): value for name, value in self.slices.members(data).items()}
            elif data[:1] == b"[":
                level |= {(*path[:depth], str(at)): value for at, value in enumerate(self.slices.elements(data))}
            level.setdefault(path[: depth + 1], MISSING)
        return level[path]

    def _values_at(
        self, level: dict[tuple[str, ...], Any], prefix: tuple[str, ...], path: tuple[str, ...]
    ) -> list[tuple[tuple[str, ...], Any]]:
        """Return each place of a path that may have :data:`EVERY`, with its value.

        The value is :data:`MISSING` for a path that leads nowhere. A value on the way that is neither object nor list
        is returned itself, so that it is refused.
        """
        steps = path[len(prefix) :]
        if prefix and steps and (data := bytes(level[prefix]))[:1] not in _JSON_STARTS:
            return [(path, data)]
        if EVERY not in steps:
            return [(path, self._value_at(level, path))]
        before = path[: len(prefix) + steps.index(EVERY)]
        container = self._value_at(level, before)
        data = b"" if container is MISSING else bytes(container)
        if data[:1] not in _JSON_STARTS:
            return [(path, container)]
        if data[:1] == b"[":
            names = list(map(str, range(len(self.slices.elements(data)))))
        else:
            members = self.slices.members(data)
            names = [EVERY] if EVERY in members else list(members)
        after = path[len(before) + 1 :]
        if names:
            self._value_at(level, (*before, names[0]))  # splits the container
        return [place for name in names for place in self._values_at(level, (*before, name), (*before, name, *after))]

    def _outer_count(self, level: dict[tuple[str, ...], Any]) -> int:
        """Return the number of elements that the first :data:`EVERY` stands for."""
        container = self._value_at(level, self._outer_path)
        data = b"" if container is MISSING else bytes(container)
        if data[:1] == b"[":
            return len(self.slices.elements(data))
        return len(self.slices.members(data)) if data[:1] == b"{" else 0

    def _refuse_dotted_name(self, body: bytes, path: str, label: str) -> None:
        if "." not in path or path.startswith("/"):
            return
        meant = suggest_pointer(_decoded(body), path)
        if meant is not None:
            raise ConfigError(
                f"{label}: no field {path!r}, but there is one at {meant!r}. A name is one field, including dots: "
                "write the pointer"
            )

    def _require_empty_page(self, body: bytes, label: str, *, lacks_all: bool) -> None:
        """Require that a page without records has no other fields, such as an error.

        :param lacks_all: the page has no declared value, though the page before it announced one.
        :raises SetupError: the page may not be empty.
        """
        if lacks_all and self._value_paths:
            places = ", ".join(map(repr, self._value_paths))
            raise SetupError(
                f"{label}: the answer has neither records {self._location} nor {places}, "
                "though the page before it announced it. It may be an error: declare it in errors"
            )
        declared = {steps[0] for steps in (self._records_path, *self._value_paths.values()) if steps}
        fields = self.slices.members(body) if body[:1] == b"{" else {}
        if others := sorted(set(fields) - declared - set(self._empty_has)):
            raise SetupError(
                f"{label}: the answer has no records {self._location}, and fields that the declaration does not name: "
                f"{joined_names(others)}. If it is an error, declare it in errors. If it is an empty page, add the "
                "fields to records.empty_has"
            )

    @property
    def _location(self) -> str:
        return f"at {self._at!r}" if self._at else "as the whole answer"

    def _elements(self, raw_list: Any, body: bytes, label: str) -> list[Any]:
        data = b"" if raw_list is MISSING else bytes(raw_list)
        # Some APIs write null for an empty list, others along with an error.
        if data in (b"", b"null") and self._missing == "empty":
            return []
        if data[:1] != self._layout.first_byte:
            if body[:1] not in _JSON_STARTS:
                raise _unreadable_error(label, body)
            raise SetupError(
                f"{label}: the answer has no {self._layout.noun} {self._location}. {describe_json(_decoded(body))}. "
                "Correct records.at or records.layout. If the answer is an error, declare it in errors. If it is an "
                "empty page, set records.missing='empty'"
            )
        try:
            return self._layout.records(data, self.slices, label)
        except (ValueError, RecursionError):
            raise RetriableError(f"{label}: the {self._layout.noun} is not valid JSON") from None


def _as_json_array(records: list[Any]) -> bytes:
    if not records:
        return b"[]"
    parts = list(records)  # joined once, because a page is large
    parts[0] = b"[" + bytes(parts[0])
    parts[-1] = bytes(parts[-1]) + b"]"
    return b",".join(parts)


def _unreadable_error(label: str, body: bytes) -> RetriableError:
    if body[:1] in _JSON_STARTS:
        return RetriableError(f"{label}: the answer is not a complete JSON document ({len(body)} bytes)")
    form = "a web page or XML" if body[:1] == b"<" else "text of another form, such as CSV"
    return SetupError(f"{label}: the answer is not JSON but {form}. Check the path, and for a proxy or a login page")


def _decode_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {path: MISSING if value is MISSING else _decoded(value) for path, value in raw.items()}


def _decoded(raw: Any) -> Any:
    try:
        return json.loads(bytes(raw).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return MISSING
