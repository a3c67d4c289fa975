"""Adds fields of the elements around a list to its records, their position, and checks their number."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.sources._rest.pages.page_values import whole_number
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.values.json.paths import MISSING, path_steps
from airflow_provider_connect.values.json.slices import JsonSlicer

_Steps = tuple[str, ...]


class OuterValues(NamedTuple):
    """Values around one list.

    :param fields: JSON by name.
    :param count: JSON of the declared number of records, or :data:`MISSING`.
    """

    fields: list[tuple[str, bytes]]
    count: Any


class OuterFields:
    """Options ``outer_fields``, ``position_field`` and ``count_at`` of records."""

    def __init__(self, records: Records) -> None:
        self._paths = {name: path_steps(path) for name, path in records.outer_fields.items()}
        self._position_field = records.position_field
        self._count_at = records.count_at
        self._count_steps = None if records.count_at is None else path_steps(records.count_at)
        self._has_fields = bool(self._paths) or self._position_field is not None

    def values_for(self, place: _Steps, value_at: Callable[[_Steps], Any]) -> OuterValues:
        """Return the values around the list at a place, whose steps replace each ``*``."""
        fields = []
        for name, steps in self._paths.items():
            value = value_at(_at_same_elements(steps, place))
            fields.append((name, b"null" if value is MISSING else bytes(value)))
        count = MISSING if self._count_steps is None else value_at(_at_same_elements(self._count_steps, place))
        return OuterValues(fields, count)

    def add(self, records: Sequence[Any], values: OuterValues, slices: JsonSlicer, label: str) -> Sequence[Any]:
        """Return the records with their fields.

        :raises SetupError: a record has a field with one of the names, or the number of records is another.
        """
        self._require_count(len(records), values.count, label)
        if not self._has_fields:
            return records
        names = [json.dumps(name, ensure_ascii=False).encode() for name, _ in values.fields]
        shared = b",".join(b"%b:%b" % (name, value) for name, (_, value) in zip(names, values.fields, strict=True))
        if self._position_field is not None:
            names.append(json.dumps(self._position_field, ensure_ascii=False).encode())
        extended = []
        for number, raw in enumerate(records):
            record = bytes(raw)
            _require_new_names(record, names, slices, label)
            position = b"" if self._position_field is None else b"%b:%d" % (names[-1], number)
            extended.append(_with_fields(record, b",".join(part for part in (shared, position) if part)))
        return extended

    def _require_count(self, number: int, count: Any, label: str) -> None:
        if self._count_at is None:
            return
        expected = None if count is MISSING else whole_number(json.loads(bytes(count)))
        if expected != number:
            raise SetupError(
                f"{label}: a list has {number:,} records, and {self._count_at!r} says "
                f"{'nothing' if expected is None else f'{expected:,}'}. The API may cut long lists: request the others "
                "by their parents. If the field counts something else, remove records.count_at"
            )


def _require_new_names(record: bytes, names: list[bytes], slices: JsonSlicer, label: str) -> None:
    if record[:1] != b"{" or not (b"\\u" in record or any(name in record for name in names)):
        return  # a name can be written only like this, or escaped
    if repeated := {json.loads(name) for name in names} & slices.members(record).keys():
        raise SetupError(
            f"{label}: a record has a field {min(repeated)!r}, as records.outer_fields or position_field. Choose "
            "another name"
        )


def _with_fields(record: bytes, fields: bytes) -> bytes:
    if record[:1] != b"{":
        return record  # refused later as no object
    return b"{%b%b%b" % (fields, b"" if record[1:].lstrip()[:1] == b"}" else b",", record[1:])


def _at_same_elements(steps: _Steps, place: _Steps) -> _Steps:
    """Return a path whose ``*`` are the steps of a place."""
    return tuple(place[at] if step == "*" else step for at, step in enumerate(steps))
