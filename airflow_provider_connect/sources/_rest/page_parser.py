"""Takes a page apart: the records, still encoded, and what it says beside them.

Pages are cut by msgspec, which reads over what nobody asks for: in one go where the page has the declared form, else
level by level. What it refuses and JSON allows, such as half of a surrogate pair in some text, is cut by a slower
reader: the page stays whole, and what is wrong with one record is that record's matter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.values.json.paths import MISSING, path_steps, suggest_pointer
from airflow_provider_connect.values.json.slices import JsonSlicer

_Attributes = tuple[str, ...]


class FastPageDecoder:
    """Cuts pages that have the declared form in one go, for their records and all else that is wanted of them.

    :param page: the form of a page, as msgspec knows it.
    :param records: the attributes on the way to the records.
    :param places: those on the way to what else is wanted, by place.
    """

    def __init__(self, page: Any, records: _Attributes, places: Mapping[str, _Attributes]) -> None:
        import msgspec

        self._page = msgspec.json.Decoder(page)
        self._records = records
        self._value_paths = places
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    @classmethod
    def for_paths(cls, records_path: tuple[str, ...], value_paths: Mapping[str, tuple[str, ...]]) -> FastPageDecoder | None:
        """Return what cuts such pages; None if a place may lie inside a list, or inside another one.

        :param records_path: the names on the way to the records.
        :param value_paths: those on the way to what else is wanted, by place.
        """
        import msgspec

        if not records_path:
            return None if value_paths else cls(list[msgspec.Raw], (), {})
        paths = {records_path, *value_paths.values()}
        if any(step.isdigit() for path in paths for step in path) or any(
            one == other[: len(one)] for one in paths for other in paths if one is not other
        ):
            return None
        if records_path in value_paths.values():
            return None
        try:
            page = _page_type(records_path, paths)
        except ValueError:  # a name that msgspec cannot look for
            return None
        return cls(page, _attributes(records_path, paths), {name: _attributes(path, paths) for name, path in value_paths.items()})

    def decode(self, body: bytes) -> tuple[list[Any], dict[str, Any]] | None:
        """Return the records of a page and what stands at the places, still encoded; None if it has another form."""
        try:
            page = self._page.decode(body)
        except self._malformed:
            return None
        records = _nested_attribute(page, self._records)
        if records is None:
            return None
        raw = {path: _nested_attribute(page, attributes) for path, attributes in self._value_paths.items()}
        return records, {path: MISSING if value is None else value for path, value in raw.items()}


def _page_type(records: tuple[str, ...], paths: Collection[tuple[str, ...]], depth: int = 0) -> Any:
    """Return the form of an object which ways lead through, with nothing but what is on them."""
    import msgspec

    names = _names(paths, depth)
    fields: list[tuple[str, Any, None]] = []
    for number, name in enumerate(names):
        inner_paths = [path for path in paths if path[depth] == name]
        if inner_paths == [records] and len(records) == depth + 1:
            kind: Any = list[msgspec.Raw]
        elif len(inner_paths[0]) == depth + 1:
            kind = msgspec.Raw
        else:
            kind = _page_type(records, inner_paths, depth + 1) | None
        fields.append((f"f{number}", kind, None))
    renamed = {f"f{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Page", fields, rename=renamed.get, gc=False)


def _names(paths: Collection[tuple[str, ...]], depth: int) -> list[str]:
    return sorted({path[depth] for path in paths})


def _attributes(path: tuple[str, ...], paths: Collection[tuple[str, ...]]) -> _Attributes:
    attributes = []
    for depth, name in enumerate(path):
        siblings = [candidate for candidate in paths if candidate[:depth] == path[:depth]]
        attributes.append(f"f{_names(siblings, depth).index(name)}")
    return tuple(attributes)


def _nested_attribute(page: Any, attributes: _Attributes) -> Any:
    for attribute in attributes:
        if page is None:
            return None
        page = getattr(page, attribute)
    return page


_SPACE = b" \t\r\n"


class PageParts(NamedTuple):
    """A page in parts.

    :param records: still encoded, in their order.
    :param listed: all of them as one JSON array, without space between them.
    :param head: by place, what was asked for, decoded; :data:`MISSING` where there is nothing.
    """

    records: list[Any]
    records_json: bytes
    page_values: dict[str, Any]


class PageParser:
    """Takes the pages of one source apart.

    :param places: what else is wanted of a page.
    """

    def __init__(self, records: Records, value_paths: Iterable[str]) -> None:
        self._records_path = path_steps(records.at)
        self._at = records.at
        self._missing = records.missing
        self._value_paths = {path: path_steps(path) for path in value_paths}
        self._fast_decoder = FastPageDecoder.for_paths(self._records_path, self._value_paths)
        self.slices = JsonSlicer()

    def parse(self, body: bytes, label: str) -> PageParts:
        """Return the parts of a page.

        :param label: which page it is, for messages.
        :raises RetriableError: it is not a whole JSON document, or has no records where they should be.
        :raises ConfigError: a place was written with dots, and the field is deeper.
        """
        decoded_page = None if self._fast_decoder is None else self._fast_decoder.decode(body)
        if decoded_page is not None:
            records, raw = decoded_page
            for path, value in raw.items():
                if value is MISSING:
                    self._refuse_dotted_name(body, path, label)
            return PageParts(records, _as_json_array(records), _decode_values(raw))
        body = body.strip(_SPACE)
        try:
            # Each level on the way is cut once, for the records and for all else that stands there.
            level: dict[tuple[str, ...], Any] = {(): body}
            raw_list = self._value_at(level, self._records_path)
            raw = {path: self._value_at(level, value_steps) for path, value_steps in self._value_paths.items()}
        except (ValueError, RecursionError):  # the text would be part of the message
            raise _incomplete_error(label, len(body)) from None
        for path in (self._at, *self._value_paths):
            if (raw_list if path == self._at else raw[path]) is MISSING:
                self._refuse_dotted_name(body, path, label)
        records = self._elements(raw_list, body, label)
        return PageParts(records, _as_json_array(records), _decode_values(raw))

    def parse_values(self, body: bytes, label: str) -> dict[str, Any]:
        """Return only what was asked for beside the records, with the errors of :meth:`cut`."""
        level: dict[tuple[str, ...], Any] = {(): body.strip(_SPACE)}
        try:
            raw = {path: self._value_at(level, value_steps) for path, value_steps in self._value_paths.items()}
        except (ValueError, RecursionError):
            raise _incomplete_error(label, len(body)) from None
        return _decode_values(raw)

    def value_in_last_record(self, page: PageParts, path: str) -> Any:
        """Return what stands at a place of the last record, decoded; None if there is none."""
        if not page.records:
            return None
        raw = self.slices.value_at(page.records[-1], path_steps(path))
        return None if raw is MISSING else _decoded(raw)

    def _value_at(self, level: dict[tuple[str, ...], Any], path: tuple[str, ...]) -> Any:
        """Return what stands at a place, and keep what was cut on the way."""
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

    def _refuse_dotted_name(self, body: bytes, path: str, label: str) -> None:
        if "." not in path or path.startswith("/"):
            return
        meant = suggest_pointer(_decoded(body), path)
        if meant is not None:
            raise ConfigError(
                f"{label}: there is no field {path!r}, but there is one at {meant!r}: a name is one field, dots and "
                "all; write the pointer"
            )

    def _elements(self, raw_list: Any, body: bytes, label: str) -> list[Any]:
        data = b"" if raw_list is MISSING else bytes(raw_list)
        # Some APIs write null for an empty list, and others beside an error.
        if data in (b"", b"null") and self._missing == "empty":
            return []
        if data[:1] != b"[":
            location = f"at {self._at!r}" if self._at else "as the whole answer"
            raise RetriableError(
                f"{label}: the answer has no list of records {location} ({len(body)} bytes): it may tell of trouble; if "
                "it is right, correct records.at, or set records.missing='empty'"
            )
        try:
            return self.slices.elements(data)
        except (ValueError, RecursionError):
            raise RetriableError(f"{label}: the list of records is no whole JSON") from None


def _as_json_array(records: list[Any]) -> bytes:
    if not records:
        return b"[]"
    parts = list(records)  # joined in one go: a page is large
    parts[0] = b"[" + bytes(parts[0])
    parts[-1] = bytes(parts[-1]) + b"]"
    return b",".join(parts)


def _incomplete_error(label: str, size_bytes: int) -> RetriableError:
    return RetriableError(
        f"{label}: the answer is not a whole JSON document ({size_bytes} bytes): a proxy or a login page may answer"
    )


def _decode_values(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {path: MISSING if value is MISSING else _decoded(value) for path, value in raw.items()}


def _decoded(raw: Any) -> Any:
    try:
        return json.loads(bytes(raw).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return MISSING
