"""From lines of an export to records: fast for the shape the server writes, exact for every other.

A line is ``{"event":"…","properties":{…}}``. The properties are kept as the bytes they came in, and only
the few that become columns are decoded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.jsonlines import Block

FIELDS = ("time", "distinct_id", "$insert_id", "mp_processing_time_ms")
"""The properties every row needs; promoted ones follow them."""

_OPENING, _MIDDLE, _CLOSING = b'{"event":"', b'","properties":{', b"}}"
_RUN_SPLIT = 8
_UNREPRESENTABLE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[ \t\r\n]*")


class NotARecordError(ValueError):
    """A line is no record; the text says why, without its values."""


class ErrorDocumentError(NotARecordError):
    """A line is a JSON object with an ``error``: the server failed while it was answering."""


class Record(NamedTuple):
    """One record of the slow way.

    :param properties: the bytes of the properties, as they came.
    :param values: the decoded fields, in order.
    :param notes: names of counts that this record adds to.
    """

    position: int
    event: str
    properties: bytes
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Records:
    """Records side by side.

    :param position: (int64) where each record's line starts in the answer.
    :param event: (string) names.
    :param properties: (string) JSON text, as it came.
    :param values: one list for each field: what the JSON holds, None when it is missing or null.
    """

    position: Any
    event: pa.StringArray
    properties: pa.StringArray
    values: list[list[Any]]

    def __len__(self) -> int:
        return len(self.event)

    @classmethod
    def of(cls, records: list[Record]) -> Records:
        """Gather records of the slow way."""
        import numpy as np
        import pyarrow as pa

        return cls(
            np.array([record.position for record in records], dtype=np.int64),
            pa.array([record.event for record in records], pa.string()),
            pa.array([record.properties for record in records], pa.binary()).cast(pa.string()),
            [list(column) for column in zip(*(record.values for record in records), strict=True)],
        )


class RecordReader:
    """Reads records whose decoded fields are :data:`FIELDS` and ``promoted``."""

    def __init__(self, promoted: tuple[str, ...] = ()) -> None:
        import msgspec

        self._names = FIELDS + tuple(name for name in promoted if name not in FIELDS)
        attributes = [f"f{i}" for i in range(len(self._names))]
        wanted = msgspec.defstruct(
            "Wanted",
            [(attribute, Any, None) for attribute in attributes],
            rename=dict(zip(attributes, self._names, strict=True)).get,
            gc=False,
        )
        line = msgspec.defstruct(
            "Line", [("event", Any, None), ("properties", msgspec.Raw, msgspec.Raw())], forbid_unknown_fields=True
        )
        self._properties = msgspec.json.Decoder(wanted)
        self._line = msgspec.json.Decoder(line)
        self._columns = _attribute_lists(attributes)
        self._malformed = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the decoded properties, in the order of ``values``."""
        return self._names

    def read_block(self, block: Block) -> tuple[Records | None, list[tuple[int, int]]]:
        """Read the usual lines of a block.

        :return: their records, and (index, start in the block) of the lines that need :meth:`read_line`.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        bytes_ = np.frombuffer(block.data, np.uint8)
        ends = np.flatnonzero(bytes_ == 0x0A).astype(np.int32)
        if not block.data.endswith(b"\n"):
            ends = np.append(ends, np.int32(len(block.data)))
        starts = np.concatenate((np.zeros(1, np.int32), ends[:-1] + 1)).astype(np.int32)
        data = pa.py_buffer(block.data)
        lines = _slices(data, np.append(starts, np.int32(len(block.data))), len(starts))
        middle = pc.find_substring(lines, _MIDDLE.decode()).to_numpy(zero_copy_only=False)
        usual = (
            (middle >= len(_OPENING))
            & _stands_at(block.data, starts, _OPENING)
            & _stands_at(block.data, ends - len(_CLOSING), _CLOSING)
            & (starts + middle + len(_MIDDLE) < ends)
        )
        at = np.flatnonzero(usual)
        heads = starts[at] + middle[at].astype(np.int32)
        # Four cuts a line: name, what stands between, properties, what is left up to the next line's name.
        cuts = np.zeros(4 * len(at) + 1, np.int32)
        cuts[0:-1:4], cuts[1::4] = starts[at] + len(_OPENING), heads
        cuts[2::4], cuts[3::4] = heads + len(_MIDDLE) - 1, ends[at] - 1
        cuts[-1] = len(block.data)
        parts = _slices(data, cuts, 4 * len(at))
        every_fourth = np.arange(0, 4 * len(at), 4, dtype=np.int32)
        names, name_is_good = _event_names(parts.take(pa.array(every_fourth)))
        properties = parts.take(pa.array(every_fourth + 2))
        decoded, is_object = self._decode(properties)
        good = name_is_good & is_object
        try:
            text = properties.cast(pa.string())
        except pa.ArrowInvalid:  # some are no UTF-8: tell which
            good &= np.array([_is_utf8(value.as_buffer()) for value in properties])
            text = None
        if not good.all():
            usual[at[~good]] = False
            decoded = [one for one, keep in zip(decoded, good[is_object], strict=True) if keep]
            mask = pa.array(good)
            names, text = names.filter(mask), properties.filter(mask).cast(pa.string())
            at = at[good]
        odd = np.flatnonzero(~usual)
        records = Records(starts[at].astype(np.int64) + block.position, names, text, self._columns(decoded))
        return records if len(records) else None, list(zip(odd.tolist(), starts[odd].tolist(), strict=True))

    def _decode(self, properties: pa.BinaryArray) -> tuple[list[Any], Any]:
        """Decode each value that is a JSON object, and tell which are."""
        import numpy as np

        offsets = np.frombuffer(properties.buffers()[1], np.int32)[: len(properties) + 1]
        data = properties.buffers()[2]
        good = np.ones(len(properties), dtype=bool)
        decoded: list[Any] = []
        runs = [(0, len(properties))] if len(properties) else []
        while runs:
            begin, end = runs.pop()
            first, last = int(offsets[begin]), int(offsets[end])
            try:
                # The values stand side by side: each starts with a brace and ends with one, so as many objects
                # as values mean one object a value.
                objects = self._properties.decode_lines(data.slice(first, last - first))
            except self._malformed:
                objects = []
            if len(objects) == end - begin:
                decoded += objects
            elif end - begin == 1:
                good[begin] = False
            else:
                step = max(1, (end - begin) // _RUN_SPLIT)
                runs += [(at, min(at + step, end)) for at in range(begin, end, step)][::-1]
        return decoded, good

    def read_line(self, line: bytes, position: int) -> Record:
        """Read one line of any shape.

        A key that stands twice counts as it stands last. A lone surrogate becomes U+FFFD in columns; the
        properties keep it.

        :raises NotARecordError: if it is none; :class:`ErrorDocumentError` if it tells of a failure.
        """
        text = _text(line)
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
            raise NotARecordError("its properties are no object")
        return Record(position, event, properties, values, notes)

    def _values(self, properties: bytes) -> tuple[Any, ...]:
        return tuple(column[0] for column in self._columns([self._properties.decode(properties)]))

    def _walk(self, text: str) -> tuple[Any, bytes, tuple[Any, ...], tuple[str, ...]]:
        """Read what msgspec cannot: other keys at the top, lone surrogates, numbers beyond a double."""
        top = dict(_members(text))
        if "error" in top and "event" not in top:
            error = _loads(top["error"])
            raise ErrorDocumentError(error if isinstance(error, str) else "")
        notes = ["unknown_fields"] * bool(top.keys() - {"event", "properties"})
        event = _loads(top.get("event", "null"))
        decoded = _loads(top.get("properties", "null"))
        values: list[Any] = []
        if isinstance(decoded, dict):
            values = [decoded.get(name) for name in self._names]
        strings = [value for value in (event, *values) if isinstance(value, str)]
        if any(map(_UNREPRESENTABLE.search, strings)):
            notes.append("lone_surrogates")
            event, *values = [_representable(value) for value in (event, *values)]
        return event, top.get("properties", "").encode(), tuple(values), tuple(notes)


def _slices(data: pa.Buffer, offsets: Any, count: int) -> pa.BinaryArray:
    import pyarrow as pa

    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), data])


def _stands_at(data: bytes, at: Any, what: bytes) -> Any:
    """Tell for each position whether ``what`` stands there; never across the ends of ``data``."""
    import numpy as np

    windows = max(len(data) - len(what) + 1, 0)
    result = (at >= 0) & (at < windows)
    if windows:
        every = np.ndarray((windows,), f"V{len(what)}", data, strides=(1,))
        result[result] = every[at[result]] == np.void(what)
    return result


def _event_names(names: pa.BinaryArray) -> tuple[pa.StringArray, Any]:
    """Return the names as text, and which could be read; few differ, so each is looked at once."""
    import numpy as np
    import pyarrow as pa

    encoded = names.dictionary_encode()
    distinct = [_event_name(name) for name in encoded.dictionary.to_pylist()]
    good = np.array([name is not None for name in distinct], dtype=bool)
    return pa.array(distinct, pa.string()).take(encoded.indices), good[encoded.indices.to_numpy()]


def _event_name(between_quotes: bytes) -> str | None:
    try:
        name = json.loads(f'"{between_quotes.decode()}"')
    except ValueError:  # more than one string stands there, or none
        return None
    return None if _UNREPRESENTABLE.search(name) else str(name)


def _is_utf8(data: Any) -> bool:
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True


def _attribute_lists(attributes: list[str]) -> Callable[[list[Any]], list[list[Any]]]:
    getters = [attrgetter(attribute) for attribute in attributes]
    return lambda decoded: [list(map(getter, decoded)) for getter in getters]


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise NotARecordError(f"invalid UTF-8 at its byte {error.start}") from None


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Yield (key, source text of the value) of the one JSON object that ``text`` is."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at = _expect(text, 0, "{")
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            try:
                key, at = decoder.raw_decode(text, at)
                if not isinstance(key, str):
                    raise NotARecordError("no JSON object")
                at = _expect(text, at, ":")
                _, end = decoder.raw_decode(text, at)
            except (ValueError, RecursionError) as error:
                raise _not_json(error) from None
            yield key, text[at:end]
            at = _SPACE.match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
            if text[at : at + 1] == "}":
                at += 1
                break
            at = _expect(text, at, ",")
    if _SPACE.match(text, at).end() != len(text):  # type: ignore[union-attr]
        raise NotARecordError("something follows the JSON object")


def _expect(text: str, at: int, what: str) -> int:
    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    if text[at : at + 1] != what:
        raise NotARecordError(f"invalid JSON at its character {at}")
    return _SPACE.match(text, at + 1).end()  # type: ignore[union-attr]


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None


def _no_constant(name: str) -> Any:
    raise NotARecordError(f"{name} is no JSON")


def _not_json(error: Exception) -> NotARecordError:
    if isinstance(error, NotARecordError):
        return error
    if isinstance(error, json.JSONDecodeError):
        return NotARecordError(f"invalid JSON at its character {error.pos}")
    return NotARecordError("nested too deep, or with a number too long")


def _representable(value: Any) -> Any:
    return _UNREPRESENTABLE.sub("\ufffd", value) if isinstance(value, str) else value
