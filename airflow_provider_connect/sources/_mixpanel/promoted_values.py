"""Converts properties to promoted columns. Values that do not fit become null and are counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.sources._mixpanel.columns import PromotedProperty
from airflow_provider_connect.sources._mixpanel.records import NotARecordError, RecordColumns
from airflow_provider_connect.values.json.slices import members
from airflow_provider_connect.values.json.typed import (
    decimal_digits,
    read_dates,
    read_decimals,
    read_instants,
    read_plain,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NESTED = {dict, list}


class PromotedColumns:
    """Builder of one poll's promoted columns.

    :param add_count: takes name and increase.
    """

    def __init__(
        self, promoted: Sequence[PromotedProperty], null_texts: Collection[str], add_count: Callable[[str, int], None]
    ) -> None:
        self._promoted = promoted
        self._null_texts = frozenset(null_texts)
        self._count = add_count
        self._texts = {
            promoted_property.property: PropertyTexts(promoted_property.property) for promoted_property in promoted
        }

    def build(self, values: Mapping[str, list[Any]], records: RecordColumns) -> dict[str, pa.Array]:
        """Return the promoted columns by name."""
        columns = {}
        for name, column, kind in self._promoted:
            property_values = values[name]
            if self._null_texts:
                null_count = property_values.count(None)
                property_values = [
                    None if isinstance(value, str) and value in self._null_texts else value for value in property_values
                ]
                self._count(f"promote_null_text.{name}", property_values.count(None) - null_count)
            columns[column], misfits = self._convert(name, kind, property_values, records)
            self._count(f"promote_null.{name}", misfits)
        return columns

    def _convert(self, name: str, kind: str, values: list[Any], records: RecordColumns) -> tuple[pa.Array, int]:
        if kind == "timestamp":
            return read_instants(values)
        if kind == "date":
            return read_dates(values)
        if (digits := decimal_digits(kind)) is not None:
            sources = self._texts[name].find_texts(
                records, [row for row, value in enumerate(values) if type(value) is float]
            )
            return read_decimals(values, sources, *digits)
        types = set(map(type, values))
        if kind == "string" and not types.isdisjoint(_NESTED):
            nested_rows = [row for row, value in enumerate(values) if type(value) in _NESTED]
            sources = self._texts[name].find_texts(records, nested_rows)
            values = [sources.get(row, value) for row, value in enumerate(values)]
            types = set(map(type, values))
        return read_plain(values, kind, types)


class PropertyTexts:
    """Finder of the JSON text of one property."""

    def __init__(self, name: str) -> None:
        import msgspec

        value_struct = msgspec.defstruct(
            "Wanted", [("value", msgspec.Raw, msgspec.Raw())], rename={"value": name}.get, gc=False
        )
        self._name = name
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(value_struct).decode
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def find_texts(self, records: RecordColumns, rows: list[int]) -> dict[int, str]:
        """Return readable JSON texts by row index."""
        import numpy as np
        import pyarrow as pa

        if not rows:
            return {}
        texts = records.properties_of_rows(np.array(rows, np.int64)).cast(pa.binary()).to_pylist()
        texts_by_row = {row: self._find_text(text) for row, text in zip(rows, texts, strict=True)}
        return {row: text for row, text in texts_by_row.items() if text is not None}

    def _find_text(self, properties: bytes) -> str | None:
        try:
            return bytes(self._decode(properties).value).decode()
        except self._malformed:  # what msgspec does not read, such as lone surrogates
            with suppress(NotARecordError):
                return dict(members(properties.decode())).get(self._name)
        return None
