"""Decodes pages of the declared form in one call."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow_provider_connect.values.json.paths import MISSING

_Attributes = tuple[str, ...]
EVERY = "*"
"""Step of ``records.at`` that stands for each element of a list, or each entry of an object without such a field."""


class FastPageDecoder:
    """Decodes a page of the declared form in one call.

    :param records_attributes: lead from the decoded page down to the records.
    :param value_attributes: lead to each other value, by path.
    """

    def __init__(self, page: Any, records_attributes: _Attributes, value_attributes: Mapping[str, _Attributes]) -> None:
        import msgspec

        self._page = msgspec.json.Decoder(page)
        self._records = records_attributes
        self._value_paths = value_attributes
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    @classmethod
    def for_paths(
        cls, records_path: tuple[str, ...], value_paths: Mapping[str, tuple[str, ...]]
    ) -> FastPageDecoder | None:
        """Return a decoder. None if a path may lead through a list, or contains another."""
        import msgspec

        if not records_path:
            return None if value_paths else cls(list[msgspec.Raw], (), {})
        paths = {records_path, *value_paths.values()}
        if any(step.isdigit() or step == EVERY for path in paths for step in path) or any(
            prefix == longer_path[: len(prefix)]
            for prefix in paths
            for longer_path in paths
            if prefix is not longer_path
        ):
            return None
        if records_path in value_paths.values():
            return None
        try:
            page = _page_type(records_path, paths)
        except ValueError:  # a name that msgspec does not support
            return None
        return cls(
            page,
            _attributes(records_path, paths),
            {name: _attributes(path, paths) for name, path in value_paths.items()},
        )

    def decode(self, body: bytes) -> tuple[list[Any], dict[str, Any]] | None:
        """Return records and other values, still encoded. None if the page has another form."""
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
