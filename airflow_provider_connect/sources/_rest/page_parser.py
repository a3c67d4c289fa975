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
        self._places = places
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
        ways = {records_path, *value_paths.values()}
        if any(step.isdigit() for way in ways for step in way) or any(
            one == other[: len(one)] for one in ways for other in ways if one is not other
        ):
            return None
        if records_path in value_paths.values():
            return None
        try:
            page = _form(records_path, ways)
        except ValueError:  # a name that msgspec cannot look for
            return None
        return cls(page, _attributes(records_path, ways), {name: _attributes(way, ways) for name, way in value_paths.items()})

    def decode(self, body: bytes) -> tuple[list[Any], dict[str, Any]] | None:
        """Return the records of a page and what stands at the places, still encoded; None if it has another form."""
        try:
            page = self._page.decode(body)
        except self._malformed:
            return None
        records = _inside(page, self._records)
        if records is None:
            return None
        raw = {place: _inside(page, way) for place, way in self._places.items()}
        return records, {place: MISSING if one is None else one for place, one in raw.items()}


def _form(records: tuple[str, ...], ways: Collection[tuple[str, ...]], depth: int = 0) -> Any:
    """Return the form of an object which ways lead through, with nothing but what is on them."""
    import msgspec

    names = _names(ways, depth)
    fields: list[tuple[str, Any, None]] = []
    for number, name in enumerate(names):
        inside = [way for way in ways if way[depth] == name]
        if inside == [records] and len(records) == depth + 1:
            kind: Any = list[msgspec.Raw]
        elif len(inside[0]) == depth + 1:
            kind = msgspec.Raw
        else:
            kind = _form(records, inside, depth + 1) | None
        fields.append((f"f{number}", kind, None))
    renamed = {f"f{number}": name for number, name in enumerate(names)}
    return msgspec.defstruct("Page", fields, rename=renamed.get, gc=False)


def _names(ways: Collection[tuple[str, ...]], depth: int) -> list[str]:
    return sorted({way[depth] for way in ways})


def _attributes(way: tuple[str, ...], ways: Collection[tuple[str, ...]]) -> _Attributes:
    found = []
    for depth, name in enumerate(way):
        beside = [other for other in ways if other[:depth] == way[:depth]]
        found.append(f"f{_names(beside, depth).index(name)}")
    return tuple(found)


def _inside(page: Any, attributes: _Attributes) -> Any:
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
        self._way = path_steps(records.at)
        self._at = records.at
        self._missing = records.missing
        self._places = {place: path_steps(place) for place in value_paths}
        self._frame = FastPageDecoder.for_paths(self._way, self._places)
        self.slices = JsonSlicer()

    def parse(self, body: bytes, label: str) -> PageParts:
        """Return the parts of a page.

        :param label: which page it is, for messages.
        :raises RetriableError: it is not a whole JSON document, or has no records where they should be.
        :raises ConfigError: a place was written with dots, and the field is deeper.
        """
        found = None if self._frame is None else self._frame.decode(body)
        if found is not None:
            records, raw = found
            for place, one in raw.items():
                if one is MISSING:
                    self._require_meant(body, place, label)
            return PageParts(records, _listed(records), _head(raw))
        body = body.strip(_SPACE)
        try:
            # Each level on the way is cut once, for the records and for all else that stands there.
            level: dict[tuple[str, ...], Any] = {(): body}
            listed = self._within(level, self._way)
            raw = {place: self._within(level, way) for place, way in self._places.items()}
        except (ValueError, RecursionError):  # the text would be part of the message
            raise _not_whole(label, len(body)) from None
        for place in (self._at, *self._places):
            if (listed if place == self._at else raw[place]) is MISSING:
                self._require_meant(body, place, label)
        records = self._elements(listed, body, label)
        return PageParts(records, _listed(records), _head(raw))

    def parse_values(self, body: bytes, label: str) -> dict[str, Any]:
        """Return only what was asked for beside the records, with the errors of :meth:`cut`."""
        level: dict[tuple[str, ...], Any] = {(): body.strip(_SPACE)}
        try:
            raw = {place: self._within(level, way) for place, way in self._places.items()}
        except (ValueError, RecursionError):
            raise _not_whole(label, len(body)) from None
        return _head(raw)

    def value_in_last_record(self, page: PageParts, path: str) -> Any:
        """Return what stands at a place of the last record, decoded; None if there is none."""
        if not page.records:
            return None
        raw = self.slices.value_at(page.records[-1], path_steps(path))
        return None if raw is MISSING else _decoded(raw)

    def _within(self, level: dict[tuple[str, ...], Any], way: tuple[str, ...]) -> Any:
        """Return what stands at a place, and keep what was cut on the way."""
        for depth in range(len(way)):
            whole = level[way[:depth]]
            if way[: depth + 1] in level:
                continue
            if whole is MISSING:
                return MISSING
            data = bytes(whole)
            if data[:1] == b"{":
                level |= {(*way[:depth], name): value for name, value in self.slices.members(data).items()}
            elif data[:1] == b"[":
                level |= {(*way[:depth], str(at)): value for at, value in enumerate(self.slices.elements(data))}
            level.setdefault(way[: depth + 1], MISSING)
        return level[way]

    def _require_meant(self, body: bytes, place: str, about: str) -> None:
        if "." not in place or place.startswith("/"):
            return
        meant = suggest_pointer(_decoded(body), place)
        if meant is not None:
            raise ConfigError(
                f"{about}: there is no field {place!r}, but there is one at {meant!r}: a name is one field, dots and "
                "all; write the pointer"
            )

    def _elements(self, listed: Any, body: bytes, about: str) -> list[Any]:
        data = b"" if listed is MISSING else bytes(listed)
        # Some APIs write null for an empty list, and others beside an error.
        if data in (b"", b"null") and self._missing == "empty":
            return []
        if data[:1] != b"[":
            where = f"at {self._at!r}" if self._at else "as the whole answer"
            raise RetriableError(
                f"{about}: the answer has no list of records {where} ({len(body)} bytes): it may tell of trouble; if "
                "it is right, correct records.at, or set records.missing='empty'"
            )
        try:
            return self.slices.elements(data)
        except (ValueError, RecursionError):
            raise RetriableError(f"{about}: the list of records is no whole JSON") from None


def _listed(records: list[Any]) -> bytes:
    if not records:
        return b"[]"
    parts = list(records)  # joined in one go: a page is large
    parts[0] = b"[" + bytes(parts[0])
    parts[-1] = bytes(parts[-1]) + b"]"
    return b",".join(parts)


def _not_whole(about: str, size_bytes: int) -> RetriableError:
    return RetriableError(
        f"{about}: the answer is not a whole JSON document ({size_bytes} bytes): a proxy or a login page may answer"
    )


def _head(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {place: MISSING if one is MISSING else _decoded(one) for place, one in raw.items()}


def _decoded(raw: Any) -> Any:
    try:
        return json.loads(bytes(raw).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return MISSING
