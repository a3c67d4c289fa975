"""Detects columns whose field no record has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._rest.records import Records
from airflow_provider_connect.stage.counts import ABSENT_COLUMN, REFUSED_COLUMN
from airflow_provider_connect.values.json.paths import MISSING, path_steps, suggest_pointer
from airflow_provider_connect.values.json.slices import JsonSlicer

if TYPE_CHECKING:
    import pyarrow as pa

_SAMPLE = 20
"""Records at each end of a page that are searched for the field of a column without a value."""


class AbsentColumns:
    """The columns of a poll without a record that has their field."""

    def __init__(self, records: Records, slices: JsonSlicer) -> None:
        self._paths = {name: column.at or name for name, column in records.columns.items()}
        self._slices = slices
        self._absent = set(self._paths)
        self._is_refused = records.absent == "fail"

    def note_page(self, columns: Mapping[str, pa.Array], records: Sequence[Any], label: str) -> None:
        """Note which columns have a value, or a null, in a page with records.

        :raises ConfigError: a path is written with dots instead of as a JSON Pointer.
        """
        self._absent -= {name for name in self._absent if columns[name].null_count < len(records)}
        if not self._absent:
            return
        sample = records if self._is_refused else [*records[:_SAMPLE], *records[-_SAMPLE:]]
        for name in sorted(self._absent):
            steps = path_steps(self._paths[name])
            if any(self._has_field(record, steps) for record in sample):
                self._absent.discard(name)
            elif (pointer := self._suggest(sample[0], self._paths[name])) is not None:
                raise ConfigError(
                    f"{label}: column {name!r}: no field {self._paths[name]!r}, but there is one at {pointer!r}. A "
                    "name is one field, including dots: set at to the pointer"
                )

    def counts(self, record_count: int) -> dict[str, int]:
        """Return a count for each absent column.

        :param record_count: records of the poll.
        """
        prefix = REFUSED_COLUMN if self._is_refused else ABSENT_COLUMN
        return {f"{prefix}{name}": record_count for name in sorted(self._absent)} if record_count else {}

    def refused(self) -> list[str]:
        """Return the absent columns, or [] if they only give a warning."""
        return sorted(self._absent) if self._is_refused else []

    def _has_field(self, record: Any, steps: tuple[str, ...]) -> bool:
        try:
            return self._slices.value_at(record, steps) is not MISSING
        except (ValueError, RecursionError):
            return True  # an unreadable record is rejected elsewhere, and says nothing of its fields

    def _suggest(self, record: Any, path: str) -> str | None:
        try:
            return suggest_pointer(json.loads(bytes(record)), path)
        except (ValueError, RecursionError):
            return None
