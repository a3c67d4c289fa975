"""Parses lines of an export, ``{"event":"…","properties":{…}}``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.sources._mixpanel.lines import (
    LineBounds,
    find_blank_lines,
    find_runs,
    is_utf8,
    matches_at,
)
from airflow_provider_connect.values.json.slices import SURROGATES, NotJsonError, decode_utf8, members, parse_json

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.jsonlines import Block

REQUIRED_PROPERTIES = ("time", "distinct_id", "$insert_id", "mp_processing_time_ms")
"""Properties decoded for every row, before the promoted ones."""

_OPENING, _MIDDLE, _CLOSING = b'{"event":"', b'","properties":{', b"}}"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_EVENT = attrgetter("event")
_RUN_SPLIT = 8

NotARecordError = NotJsonError
"""A line is not a record. The message shows no values."""


class ErrorDocumentError(Exception):
    """A line is an object with ``error``: the server failed during its answer."""


class ParsedRecord(NamedTuple):
    """Record of one line.

    :param properties: unchanged bytes.
    """

    position: int
    event: str
    properties: bytes
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordColumns:
    """Records as columns.

    :param positions: (int64) start of each record's line in the answer.
    :param property_slices: (string) two views per record: its properties, and the bytes up to the next record's.
    :param field_values: decoded values by field.
    """

    positions: Any
    events: pa.StringArray
    property_slices: pa.StringArray
    field_values: list[list[Any]]

    def __len__(self) -> int:
        return len(self.events)

    def properties_of_rows(self, rows: Any) -> pa.StringArray:
        """Return the properties of rows by index (numpy array)."""
        import pyarrow as pa

        return self.property_slices.take(pa.array(2 * rows))

    def properties_of_row(self, row: int) -> str:
        return str(self.property_slices[2 * row].as_py())

    def select_rows(self, rows: list[int]) -> RecordColumns:
        import pyarrow as pa

        return RecordColumns(
            self.positions[rows],
            self.events.take(pa.array(rows, pa.int64())),
            self.property_slices.take(
                pa.array([slice_index for row in rows for slice_index in (2 * row, 2 * row + 1)], pa.int64())
            ),
            [[column[row] for row in rows] for column in self.field_values],
        )

    @classmethod
    def from_list(cls, records: list[ParsedRecord]) -> RecordColumns:
        import numpy as np
        import pyarrow as pa

        slices = [part for record in records for part in (record.properties, b"")]
        return cls(
            np.array([record.position for record in records], dtype=np.int64),
            pa.array([record.event for record in records], pa.string()),
            pa.array(slices, pa.binary()).cast(pa.string()),
            [list(column) for column in zip(*(record.values for record in records), strict=True)],
        )


class BlockRecords(NamedTuple):
    """Records of a block's usual lines, and the positions of its odd lines.

    :param odd_lines: (nonblank index, start in the block).
    """

    records: RecordColumns | None
    odd_lines: list[tuple[int, int]]
    line_count: int
    blank_count: int


class RecordReader:
    """Parses records. Decodes only :data:`REQUIRED_PROPERTIES` and ``promoted_names``."""

    def __init__(self, promoted_names: tuple[str, ...] = ()) -> None:
        import msgspec

        self.field_names = tuple(dict.fromkeys(REQUIRED_PROPERTIES + promoted_names))
        """Names of the decoded properties, in the order of ``values``."""
        self._decoded_properties: list[Any] = []  # every decoded properties object, in order
        attributes = [f"f{i}" for i in range(len(self.field_names))]
        properties_struct = msgspec.defstruct(
            "Wanted",
            [(attribute, Any, None) for attribute in attributes],
            rename=dict(zip(attributes, self.field_names, strict=True)).get,
            gc=False,
            namespace={"__post_init__": self._decoded_properties.append},
        )
        usual = msgspec.defstruct(
            "Usual", [("event", str), ("properties", properties_struct)], gc=False, forbid_unknown_fields=True
        )
        line = msgspec.defstruct(
            "Line", [("event", Any, None), ("properties", msgspec.Raw, msgspec.Raw())], forbid_unknown_fields=True
        )
        self._usual = msgspec.json.Decoder(usual)
        self._properties = msgspec.json.Decoder(properties_struct)
        self._line = msgspec.json.Decoder(line)
        self._columns = _attribute_lists(attributes)
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def read_block(self, block: Block, bounds: LineBounds) -> BlockRecords:
        """Read a block's usual lines, and find its odd and blank ones."""
        import numpy as np
        import pyarrow as pa

        data = block.data
        starts, ends = bounds
        usual = matches_at(data, starts, _OPENING) & matches_at(data, ends - len(_CLOSING), _CLOSING)
        row_indexes, event_names, properties = self._decode(data, starts, ends, usual)
        event = pa.array(event_names, pa.string())
        heads, is_certain = _property_starts(data, starts[row_indexes] + len(_OPENING), event)
        if not is_utf8(data):
            is_certain &= np.array([is_utf8(data[starts[row] : ends[row]]) for row in row_indexes.tolist()], dtype=bool)
        if not is_certain.all():
            event, row_indexes, heads = event.filter(pa.array(is_certain)), row_indexes[is_certain], heads[is_certain]
            properties = [
                decoded_properties
                for decoded_properties, keep in zip(properties, is_certain.tolist(), strict=True)
                if keep
            ]
        usual[:] = False
        usual[row_indexes] = True
        blank = find_blank_lines(data, bounds)
        odd = np.flatnonzero(~(usual | blank))
        numbers = odd - np.cumsum(blank)[odd]
        cuts = np.empty(2 * len(row_indexes) + 1, np.int32)
        cuts[0:-1:2], cuts[1::2], cuts[-1] = (
            heads,
            ends[row_indexes] - 1,
            ends[row_indexes[-1]] if len(row_indexes) else 0,
        )
        slices = pa.StringArray.from_buffers(2 * len(row_indexes), pa.py_buffer(cuts), pa.py_buffer(data))
        records = RecordColumns(starts[row_indexes] + block.position, event, slices, self._columns(properties))
        odd_lines = list(zip(numbers.tolist(), starts[odd].tolist(), strict=True))
        blanks = int(blank.sum())
        return BlockRecords(records if len(records) else None, odd_lines, len(starts) - blanks, blanks)

    def _decode(self, data: bytes, starts: Any, ends: Any, usual: Any) -> tuple[Any, list[str], list[Any]]:
        """Decode the lines marked as usual. Returns row index, event and properties of each."""
        import numpy as np

        row_indexes: list[Any] = []
        event_names: list[str] = []
        properties: list[Any] = []
        view = memoryview(data)
        runs = find_runs(usual)[::-1]
        while runs:
            begin, end = runs.pop()
            self._decoded_properties.clear()
            try:
                lines = self._usual.decode_lines(view[starts[begin] : ends[end - 1]])
            except self._malformed:
                lines = []
            if len(lines) == len(self._decoded_properties) == end - begin:
                row_indexes.append(np.arange(begin, end))
                event_names += map(_EVENT, lines)
                properties += self._decoded_properties
            elif end - begin > 1:
                step = max(1, (end - begin) // _RUN_SPLIT)
                runs += [(start, min(start + step, end)) for start in range(begin, end, step)][::-1]
        self._decoded_properties.clear()
        return np.concatenate(row_indexes) if row_indexes else np.empty(0, np.int64), event_names, properties

    def read_line(self, line: bytes, position: int) -> ParsedRecord:
        """Read one line of any shape.

        The last value of a repeated key counts. A lone surrogate becomes U+FFFD, except in the properties' bytes.

        :raises NotARecordError: the line is not a record. ErrorDocumentError if it reports a failure.
        """
        text = decode_utf8(line)
        notes: tuple[str, ...] = ()
        try:
            parsed: Any = self._line.decode(line)
            event, properties = parsed.event, bytes(parsed.properties)
            values = self._values(properties) if properties[:1] == b"{" else ()
        except self._malformed:
            event, properties, values, notes = self._read_with_json(text)
        if not isinstance(event, str):
            raise NotARecordError("it has no event name")
        if properties[:1] != b"{":
            raise NotARecordError("its properties are not an object")
        return ParsedRecord(position, event, properties, values, notes)

    def _values(self, properties: bytes) -> tuple[Any, ...]:
        return tuple(column[0] for column in self._columns([self._properties.decode(properties)]))

    def _read_with_json(self, text: str) -> tuple[Any, bytes, tuple[Any, ...], tuple[str, ...]]:
        members_of_line = dict(members(text))
        if "error" in members_of_line and "event" not in members_of_line:
            error = parse_json(members_of_line["error"])
            raise ErrorDocumentError(error if isinstance(error, str) else "")
        notes = ["unknown_fields"] * bool(members_of_line.keys() - {"event", "properties"})
        event = parse_json(members_of_line.get("event", "null"))
        decoded_properties = parse_json(members_of_line.get("properties", "null"))
        values: list[Any] = []
        if isinstance(decoded_properties, dict):
            values = [decoded_properties.get(name) for name in self.field_names]
        strings = [value for value in (event, *values) if isinstance(value, str)]
        if any(map(SURROGATES.search, strings)):
            notes.append("lone_surrogates")
            event, *values = [_replace_surrogates(value) for value in (event, *values)]
        return event, members_of_line.get("properties", "").encode(), tuple(values), tuple(notes)


def _property_starts(data: bytes, names: Any, event: pa.StringArray) -> tuple[Any, Any]:
    """Return where each line's properties start, and a mask of lines for which this is certain."""
    import numpy as np
    import pyarrow.compute as pc

    ends = names + pc.binary_length(event).to_numpy()
    is_found = matches_at(data, ends, _MIDDLE)
    for row in np.flatnonzero(~is_found).tolist():
        name_match = _STRING.match(data, names[row] - 1)
        ends[row] = name_match.end() - 1 if name_match else 0
        is_found[row] = data.startswith(_MIDDLE, ends[row])
    return ends + len(_MIDDLE) - 1, is_found


def _attribute_lists(attributes: list[str]) -> Callable[[list[Any]], list[list[Any]]]:
    getters = [attrgetter(attribute) for attribute in attributes]
    return lambda objects: [list(map(getter, objects)) for getter in getters]


def _replace_surrogates(value: Any) -> Any:
    return SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value
