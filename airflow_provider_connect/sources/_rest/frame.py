"""Cuts pages in one go: their form is known from the declaration, but for pages that go their own way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_provider_connect.values.json.places import MISSING

_Attributes = tuple[str, ...]


class Frame:
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
    def of(cls, records: tuple[str, ...], places: Mapping[str, tuple[str, ...]]) -> Frame | None:
        """Return what cuts such pages; None if a place may lie inside a list, or inside another one.

        :param records: the names on the way to the records.
        :param places: those on the way to what else is wanted, by place.
        """
        import msgspec

        if not records:
            return None if places else cls(list[msgspec.Raw], (), {})
        ways = {records, *places.values()}
        if any(step.isdigit() for way in ways for step in way) or any(
            one == other[: len(one)] for one in ways for other in ways if one is not other
        ):
            return None
        if records in places.values():
            return None
        try:
            page = _form(records, ways)
        except ValueError:  # a name that msgspec cannot look for
            return None
        return cls(page, _attributes(records, ways), {name: _attributes(way, ways) for name, way in places.items()})

    def cut(self, body: bytes) -> tuple[list[Any], dict[str, Any]] | None:
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
