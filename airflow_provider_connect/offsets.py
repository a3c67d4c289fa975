"""Offsets: the settled days of a stream, as an Airflow Variable.

The Variable may lag behind the sink's ledger, but never leads it.

>>> from airflow_provider_connect.offsets import Offset
>>> Offset.read(source, sink).position            # doctest: +SKIP
datetime.date(2026, 10, 11)
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import hashlib
import logging
import re
from collections.abc import Iterable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from airflow_provider_connect.capabilities.source import ListsStreams
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.sink import Ledger, LedgerRow, Sink
from airflow_provider_connect.source import ListedStream, Source
from airflow_provider_connect.window import DaySet, Settled

PREFIX = "connect_offset/"
_DESCRIPTION = "Settled days, recomputed from the sink's ledger after every task."
_KEY_CHARS = 250  # width of Airflow's column for Variable keys
_ROUNDS = 100

_log = logging.getLogger(__name__)


class Offset(BaseModel):
    """Settled days of one stream in one sink.

    :param days: ranges of settled days (:mod:`.window`), both ends included, in the source's zone.
    :param position: last day settled without a gap since ``origin``. None if ``origin`` is not settled.
    :param origin: first day of the stream. None means the first settled day.
    :param origin_is_set: True if a person or ``origin=`` set the origin. Start dates then do not move it.
    :param read_at: of increments, the first read of the newest one, UTC.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    connector: str
    stream: str
    sink: str
    target: str
    days: tuple[tuple[dt.date, dt.date], ...] = ()
    position: dt.date | None = None
    origin: dt.date | None = None
    origin_is_set: bool = False
    read_at: dt.datetime | None = None
    updated_at: dt.datetime

    @property
    def done(self) -> DaySet:
        """Settled days as a set."""
        return DaySet(ranges=self.days)

    @property
    def settled(self) -> Settled:
        """Settled days, with methods for gaps, position and lag."""
        return Settled(self.done, self.origin)

    @classmethod
    def from_published(
        cls, source: Source, sink: Sink, published: DaySet, origin: dt.date | None, *, origin_is_set: bool = False
    ) -> Offset:
        """Build the offset of a stream from its published days."""
        settled = Settled.from_published(published, origin, replaces_whole=sink.replaces_whole(source.kind))
        return cls(
            connector=source.name,
            stream=source.stream_key,
            sink=sink.name,
            target=sink.target,
            days=settled.days.ranges,
            position=settled.position,
            origin=origin,
            origin_is_set=origin_is_set,
            updated_at=dt.datetime.now(dt.UTC),
        )

    @classmethod
    def read(cls, source: Source, sink: Sink) -> Offset | None:
        """Return the offset of a stream, if it has one.

        :raises ConfigError: the Variable does not contain an offset.
        """
        key = variable_key(source, sink)
        text = variables.read(key)
        return None if text is None else _require_offset(key, text)

    @classmethod
    def set(cls, source: Source, sink: Sink, days: Iterable[dt.date], *, origin: dt.date | None = None) -> Offset:
        """Write an offset with these days. The stream's next task replaces them by the ledger's.

        :param origin: first day of the stream. None means the next task's DAG's start date.
        """
        offset = cls.from_published(source, sink, DaySet.from_dates(days), origin, origin_is_set=origin is not None)
        variables.write(variable_key(source, sink), offset.model_dump_json(), _DESCRIPTION)
        return offset

    @classmethod
    def reset(cls, source: Source, sink: Sink) -> None:
        """Delete an offset, which the stream's next task recomputes from the ledger."""
        variables.delete(variable_key(source, sink))

    @classmethod
    def list(cls) -> _Offsets:
        """Return the offsets of all streams, sorted by the Variables' names."""
        texts = {key: variables.read(key) for key in variables.keys(PREFIX)}
        return [_require_offset(key, text) for key, text in texts.items() if text is not None]


class LoadedStream(NamedTuple):
    """One stream of a source with many, which has an offset.

    :param choice: its name in :attr:`.ListedStream.choices`.
    """

    stream: ListedStream
    choice: str
    source: Source
    sink: Sink

    @property
    def title(self) -> str:
        """The stream's name for people, which its source gives it."""
        return self.stream.title or self.choice


_Offsets = list[Offset]  # inside the class ``list`` is the method


def stored_offsets() -> dict[str, Offset | None]:
    """Return all offsets by Variable name without :data:`PREFIX`, an unreadable one as None."""
    texts = {key: variables.read(key) for key in variables.keys(PREFIX)}
    return {key.removeprefix(PREFIX): parse_offset(text) for key, text in texts.items() if text is not None}


def delete_variable(name: str) -> None:
    """Delete an offset, readable or not, by its name in :func:`stored_offsets`."""
    variables.delete(PREFIX + name)


def variable_key(source: Source, sink: Sink) -> str:
    """Return an offset's Variable: ``connect_offset/<connector>/<stream>/<sink>-<digest of the target>``."""
    target = hashlib.sha256(sink.target.encode()).hexdigest()[:8]
    key = f"{PREFIX}{source.name}/{source.stream_key}/{sink.name}-{target}"
    if len(key) <= _KEY_CHARS:
        return key
    return f"{key[: _KEY_CHARS - 17]}~{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def streams_of_keys(
    source: Source, sink: Sink, keys: Iterable[str], default_schema: str = ""
) -> dict[str, LoadedStream]:
    """Return the streams of a source with many that have an offset, by its Variable.

    :param default_schema: as :attr:`.StreamListing.default_schema`. "" if unknown.
    """
    lister, prefix = source.capability(ListsStreams), f"{PREFIX}{source.name}/"
    if lister is None:
        return {}
    find = functools.partial(_find_stream, lister, sink, prefix)
    loaded = {}
    for key in keys:
        stream = find(key, default_schema) or (find(key, "") if default_schema else None)
        if stream is None and key.startswith(f"{prefix}{source.conn_id}.") and f"/{sink.name}-" in key:
            # Its schema may be one of several default ones, or have no table any more: its target names it.
            stream = find(key, schema) if (schema := _schema_in_target(sink, key)) else None
        if stream is not None:
            loaded[key] = stream
    return loaded


def _find_stream(lister: ListsStreams, sink: Sink, prefix: str, key: str, default_schema: str) -> LoadedStream | None:
    for stream in lister.recall_streams(key.removeprefix(prefix).rpartition("/")[0], default_schema):
        with contextlib.suppress(ConfigError):  # a name that can be no stream has no offset
            stream_sink = sink.for_stream(stream.names)
            for choice in stream.choices:
                stream_source = lister.stream_source(choice)
                if variable_key(stream_source, stream_sink) == key:
                    return LoadedStream(stream, choice, stream_source, stream_sink)
    return None


def _schema_in_target(sink: Sink, key: str) -> str:
    """Return the schema in an offset's target, "" if the sink's target has no schema or another form."""
    if not sink.names_streams or "{schema}" not in str(getattr(sink, sink.stream_option)):
        return ""
    marks = {"schema": "schema0mark", "table": "table0mark"}
    pattern = re.escape(sink.for_stream(marks).target)
    for name, mark in marks.items():
        pattern = pattern.replace(mark, f"(?P<{name}>.+)", 1).replace(mark, f"(?P={name})")
    offset = parse_offset(variables.read(key))
    match = None if offset is None else re.fullmatch(pattern, offset.target)
    return "" if match is None else match["schema"]


def recompute(
    source: Source, sink: Sink, ledger: Ledger, first_day: dt.date | None, *, origin: dt.date | None = None
) -> Offset:
    """Write the offset until it agrees with the ledger and the ledger stands still. Returns it.

    Overwrites an origin that another client sets between its read and its write.

    :raises ConfigError: an environment variable or a secrets backend hides the Variable.
    :raises RetriableError: the ledger keeps changing, or the Variable cannot be read back.
    """
    key = variable_key(source, sink)
    published, increment, text = ledger.days(), _newest_increment(source, ledger), variables.read(key)
    _warn_of_changed_origin(key, text, origin)
    first_stored = parse_offset(text)
    overruled = (
        first_stored.origin if origin is not None and first_stored is not None and first_stored.origin_is_set else None
    )
    for _ in range(_ROUNDS):
        origin_in_force = _choose_origin(parse_offset(text), first_day, origin, overruled)
        offset = Offset.from_published(source, sink, published, origin_in_force[0], origin_is_set=origin_in_force[1])
        offset = offset.model_copy(update={"read_at": _read_at(increment, parse_offset(text))})
        text_read_back = text
        if not _holds(text, offset):
            _warn_of_lead(key, text, source, sink, published)
            variables.write(key, offset.model_dump_json(), _DESCRIPTION)
            text_read_back = variables.read(key)
            if text_read_back is None:
                raise RetriableError(f"Variable {key!r} was set, but cannot be read back")
            # Every written text has another instant, so an unchanged text was not overwritten.
            if text_read_back == text:
                raise ConfigError(_shadowed_text(key))
        # If another task has written since, its days need no check, since it also reads the ledger again. Its origin
        # does: that task may have chosen the earlier origin before it could read this one.
        stored = parse_offset(text_read_back)
        origin_stands = stored is not None and _choose_origin(stored, first_day, origin, overruled) == (
            stored.origin,
            stored.origin_is_set,
        )
        state_read_again = ledger.days(), _newest_increment(source, ledger)
        if state_read_again == (published, increment) and origin_stands:
            return offset
        (published, increment), text = state_read_again, variables.read(key)
    raise RetriableError(f"offset {key!r}: the ledger moved {_ROUNDS} times while the offset was recomputed")


def _newest_increment(source: Source, ledger: Ledger) -> LedgerRow | None:
    return ledger.newest(dt.date.max, "increment") if source.kind == "increment" else None


def _read_at(increment: LedgerRow | None, stored: Offset | None) -> dt.datetime | None:
    if increment is None or increment.generation == 1:
        return None if increment is None else increment.polled_at
    return None if stored is None else stored.read_at


def _choose_origin(
    stored: Offset | None, start: dt.date | None, origin: dt.date | None, overruled: dt.date | None
) -> tuple[dt.date | None, bool]:
    """Return the origin to write, and True if it was set explicitly."""
    if stored is not None and stored.origin_is_set and (origin is None or stored.origin != overruled):
        return stored.origin, True
    if origin is not None:
        return origin, True
    candidates = [candidate for candidate in (stored.origin if stored else None, start) if candidate is not None]
    return min(candidates, default=None), False


def _holds(text: str | None, offset: Offset) -> bool:
    stored = parse_offset(text)
    return stored is not None and stored.model_copy(update={"updated_at": offset.updated_at}) == offset


def _warn_of_lead(key: str, text: str | None, source: Source, sink: Sink, published: DaySet) -> None:
    if text is None:
        return
    stored = parse_offset(text)
    if stored is None:
        _log.warning("Variable %s did not contain an offset, and is recomputed from the ledger", key)
        return
    surplus = DaySet.from_dates(
        set(stored.done) - set(Offset.from_published(source, sink, published, stored.origin).done)
    )
    if len(surplus):
        spans = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in surplus.ranges)
        _log.warning("offset %s had days that the sink's ledger lacks, which are removed: %s", key, spans)


def _warn_of_changed_origin(key: str, text: str | None, origin: dt.date | None) -> None:
    stored = parse_offset(text)
    if origin is not None and stored is not None and stored.origin_is_set and stored.origin != origin:
        _log.warning(
            "offset %s: this task's origin= changes the origin from %s to %s",
            key,
            stored.origin,
            origin,
        )


def _require_offset(key: str, text: str) -> Offset:
    offset = parse_offset(text)
    if offset is None:
        raise ConfigError(
            f"Variable {key!r} does not contain an offset. Reset it, and the stream's next task recomputes it"
        )
    return offset


def parse_offset(text: str | None) -> Offset | None:
    """Parse a Variable's text. None if it is no offset."""
    if text is None:
        return None
    try:
        return Offset.model_validate_json(text)
    except ValidationError:
        return None


def _shadowed_text(key: str) -> str:
    return (
        f"Variable {key!r} was set, but reads as before. An environment variable (AIRFLOW_VAR_…) or a secrets "
        "backend has the same name and hides it. Remove the variable there"
    )
