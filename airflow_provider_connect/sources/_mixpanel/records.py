"""Turns lines of an export into records: fast for lines as the server writes them, exact for all others.

A line is ``{"event":"…","properties":{…}}``. The bytes of the properties are kept as they are, and only
the few that become columns are decoded.
"""

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
"""The properties every row needs; promoted ones follow them."""

_OPENING, _MIDDLE, _CLOSING = b'{"event":"', b'","properties":{', b"}}"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_EVENT = attrgetter("event")
_RUN_SPLIT = 8

NotARecordError = NotJsonError
"""A line is not a record; the text says why, without its values."""


class ErrorDocumentError(Exception):
    """A line is a JSON object with an ``error``: the server failed while it was answering."""


class ParsedRecord(NamedTuple):
    """One record, read by :meth:`RecordReader.read_line`.

    :param properties: the bytes of the properties, unchanged.
    :param values: the decoded fields, in order.
    :param notes: names of the counts that this record increases.
    """

    position: int
    event: str
    properties: bytes
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordColumns:
    """Records as columns.

    :param position: (int64) where each record's line starts in the answer.
    :param event: (string) the events' names.
    :param pieces: (string) two for each record: its properties, unchanged, and the bytes from there to the next
        record's properties. So nothing is copied until :meth:`properties_of_rows` copies those of the rows that are kept.
    :param values: one list for each field, with the decoded JSON values; None if missing or null.
    """

    positions: Any
    events: pa.StringArray
    property_slices: pa.StringArray
    field_values: list[list[Any]]

    def __len__(self) -> int:
        return len(self.events)

    def properties_of_rows(self, rows: Any) -> pa.StringArray:
        """Return the properties of the rows with these numbers."""
        import pyarrow as pa

        return self.property_slices.take(pa.array(2 * rows))

    def properties_of_row(self, row: int) -> str:
        """Return the properties of one row."""
        return str(self.property_slices[2 * row].as_py())

    def select_rows(self, rows: list[int]) -> RecordColumns:
        """Return only the rows with these numbers."""
        import pyarrow as pa

        return RecordColumns(
            self.positions[rows],
            self.events.take(pa.array(rows, pa.int64())),
            self.property_slices.take(
                pa.array([piece for row in rows for piece in (2 * row, 2 * row + 1)], pa.int64())
            ),
            [[column[row] for row in rows] for column in self.field_values],
        )

    @classmethod
    def from_list(cls, records: list[ParsedRecord]) -> RecordColumns:
        """Gather single records."""
        import numpy as np
        import pyarrow as pa

        pieces = [piece for record in records for piece in (record.properties, b"")]
        return cls(
            np.array([record.position for record in records], dtype=np.int64),
            pa.array([record.event for record in records], pa.string()),
            pa.array(pieces, pa.binary()).cast(pa.string()),
            [list(column) for column in zip(*(record.values for record in records), strict=True)],
        )


class BlockRecords(NamedTuple):
    """The records of a block's usual lines, and where its other lines are.

    :param odd: (number among the lines that are not blank, start in the block) of the lines that need
        :meth:`RecordReader.read_line`.
    :param lines: number of lines that are not blank.
    :param blank: number of blank lines.
    """

    records: RecordColumns | None
    odd_lines: list[tuple[int, int]]
    line_count: int
    blank_count: int


class RecordReader:
    """Reads records whose decoded fields are :data:`REQUIRED_PROPERTIES` and ``promoted``."""

    def __init__(self, promoted_names: tuple[str, ...] = ()) -> None:
        import msgspec

        self.field_names = tuple(dict.fromkeys(REQUIRED_PROPERTIES + promoted_names))
        """Of the decoded properties, in the order of ``values``."""
        self._made: list[Any] = []  # every decoded properties object, in order
        attributes = [f"f{i}" for i in range(len(self.field_names))]
        wanted = msgspec.defstruct(
            "Wanted",
            [(attribute, Any, None) for attribute in attributes],
            rename=dict(zip(attributes, self.field_names, strict=True)).get,
            gc=False,
            namespace={"__post_init__": self._made.append},
        )
        usual = msgspec.defstruct(
            "Usual", [("event", str), ("properties", wanted)], gc=False, forbid_unknown_fields=True
        )
        line = msgspec.defstruct(
            "Line", [("event", Any, None), ("properties", msgspec.Raw, msgspec.Raw())], forbid_unknown_fields=True
        )
        self._usual = msgspec.json.Decoder(usual)
        self._properties = msgspec.json.Decoder(wanted)
        self._line = msgspec.json.Decoder(line)
        self._columns = _attribute_lists(attributes)
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    def read_block(self, block: Block, bounds: LineBounds) -> BlockRecords:
        """Read the usual lines of a block."""
        import numpy as np
        import pyarrow as pa

        data = block.data
        starts, ends = bounds
        usual = matches_at(data, starts, _OPENING) & matches_at(data, ends - len(_CLOSING), _CLOSING)
        at, names, wanted = self._decode(data, starts, ends, usual)
        event = pa.array(names, pa.string())
        heads, good = _property_starts(data, starts[at] + len(_OPENING), event)
        if not is_utf8(data):
            good &= np.array([is_utf8(data[starts[row] : ends[row]]) for row in at.tolist()], dtype=bool)
        if not good.all():
            event, at, heads = event.filter(pa.array(good)), at[good], heads[good]
            wanted = [one for one, keep in zip(wanted, good.tolist(), strict=True) if keep]
        usual[:] = False
        usual[at] = True
        blank = find_blank_lines(data, bounds)
        odd = np.flatnonzero(~(usual | blank))
        numbers = odd - np.cumsum(blank)[odd]
        cuts = np.empty(2 * len(at) + 1, np.int32)
        cuts[0:-1:2], cuts[1::2], cuts[-1] = heads, ends[at] - 1, ends[at[-1]] if len(at) else 0
        pieces = pa.StringArray.from_buffers(2 * len(at), pa.py_buffer(cuts), pa.py_buffer(data))
        records = RecordColumns(starts[at] + block.position, event, pieces, self._columns(wanted))
        others = list(zip(numbers.tolist(), starts[odd].tolist(), strict=True))
        blanks = int(blank.sum())
        return BlockRecords(records if len(records) else None, others, len(starts) - blanks, blanks)

    def _decode(self, data: bytes, starts: Any, ends: Any, usual: Any) -> tuple[Any, list[str], list[Any]]:
        """Decode the lines that are marked as usual; return index, event and properties of those that are records.

        The decoder takes many lines at once, and ends an object where the JSON ends, not the line. Here that is the
        same: a string never holds a bare newline, so it ends in its line; each line starts with ``{`` and ends with
        ``}``, and ``}{`` cannot occur inside an object; so each object ends in its line, and equal numbers of objects
        and lines mean one object a line. Equal numbers of properties and lines mean that no line has the key
        ``properties`` twice: the object that closes the line is the one found at its start.
        """
        import numpy as np

        found: list[Any] = []
        names: list[str] = []
        wanted: list[Any] = []
        view = memoryview(data)
        runs = find_runs(usual)[::-1]
        while runs:
            begin, end = runs.pop()
            self._made.clear()
            try:
                lines = self._usual.decode_lines(view[starts[begin] : ends[end - 1]])
            except self._malformed:
                lines = []
            if len(lines) == len(self._made) == end - begin:
                found.append(np.arange(begin, end))
                names += map(_EVENT, lines)
                wanted += self._made
            elif end - begin > 1:
                step = max(1, (end - begin) // _RUN_SPLIT)
                runs += [(at, min(at + step, end)) for at in range(begin, end, step)][::-1]
        self._made.clear()
        return np.concatenate(found) if found else np.empty(0, np.int64), names, wanted

    def read_line(self, line: bytes, position: int) -> ParsedRecord:
        """Read one line of any shape.

        Of a key that occurs twice, the last counts. A lone surrogate becomes U+FFFD in columns; the properties keep it.

        :raises NotARecordError: if it is not a record; :class:`ErrorDocumentError` if it reports a failure.
        """
        text = decode_utf8(line)
        notes: tuple[str, ...] = ()
        try:
            parsed: Any = self._line.decode(line)
            event, properties = parsed.event, bytes(parsed.properties)
            values = self._values(properties) if properties[:1] == b"{" else ()
        except self._malformed:
            event, properties, values, notes = self._walk(text)
        if not isinstance(event, str):
            raise NotARecordError("it has no event name")
        if properties[:1] != b"{":
            raise NotARecordError("its properties are not an object")
        return ParsedRecord(position, event, properties, values, notes)

    def _values(self, properties: bytes) -> tuple[Any, ...]:
        return tuple(column[0] for column in self._columns([self._properties.decode(properties)]))

    def _walk(self, text: str) -> tuple[Any, bytes, tuple[Any, ...], tuple[str, ...]]:
        """Read a line that msgspec cannot: with other top-level keys, lone surrogates, numbers beyond a double."""
        top = dict(members(text))
        if "error" in top and "event" not in top:
            error = parse_json(top["error"])
            raise ErrorDocumentError(error if isinstance(error, str) else "")
        notes = ["unknown_fields"] * bool(top.keys() - {"event", "properties"})
        event = parse_json(top.get("event", "null"))
        decoded = parse_json(top.get("properties", "null"))
        values: list[Any] = []
        if isinstance(decoded, dict):
            values = [decoded.get(name) for name in self.field_names]
        strings = [value for value in (event, *values) if isinstance(value, str)]
        if any(map(SURROGATES.search, strings)):
            notes.append("lone_surrogates")
            event, *values = [_representable(value) for value in (event, *values)]
        return event, top.get("properties", "").encode(), tuple(values), tuple(notes)


def _property_starts(data: bytes, names: Any, event: pa.StringArray) -> tuple[Any, Any]:
    """Return where the properties of decoded lines start, and for which lines that is certain.

    Without an escape, a name's length gives its end. With one, that position lies inside the name, and the text after a
    name cannot be there: its second quote would end the name, and no JSON goes on like that.

    :param names: where the event names of the lines start.
    """
    import numpy as np
    import pyarrow.compute as pc

    ends = names + pc.binary_length(event).to_numpy()
    plain = matches_at(data, ends, _MIDDLE)
    for row in np.flatnonzero(~plain).tolist():
        literal = _STRING.match(data, names[row] - 1)
        ends[row] = literal.end() - 1 if literal else 0
        plain[row] = data.startswith(_MIDDLE, ends[row])
    return ends + len(_MIDDLE) - 1, plain


def _attribute_lists(attributes: list[str]) -> Callable[[list[Any]], list[list[Any]]]:
    getters = [attrgetter(attribute) for attribute in attributes]
    return lambda decoded: [list(map(getter, decoded)) for getter in getters]


def _representable(value: Any) -> Any:
    return SURROGATES.sub("\ufffd", value) if isinstance(value, str) else value
