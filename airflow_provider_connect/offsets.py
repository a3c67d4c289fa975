"""Offsets: which days of a stream are done, as an Airflow Variable that follows the sink's ledger.

The ledger is the truth. Variables have no compare-and-set, so an offset is never modified, but recomputed:
write what the ledger says, read the ledger again, and write again until nothing moved. Whoever writes last
then writes the truth, however many tasks finish at the same time. The Variable may lag, it never leads.

>>> from airflow_provider_connect.offsets import Offset
>>> Offset.read(source, sink).position            # doctest: +SKIP
datetime.date(2026, 10, 11)
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, ValidationError

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.sink import Ledger, Sink
from airflow_provider_connect.source import Source
from airflow_provider_connect.window import DaySet

PREFIX = "connect_offset/"
_DESCRIPTION = "Days that are done; recomputed from the sink's ledger after every task."
_KEY_CHARS = 250  # of Airflow's column for Variable keys
_ROUNDS = 100

_log = logging.getLogger(__name__)


class Offset(BaseModel):
    """What is done of one stream in one sink.

    :param days: ranges of done days, both ends included, in the source's zone.
    :param position: last day up to which every day since ``origin`` is done; None if ``origin`` is not.
    :param origin: first day that is wanted; None takes the first done day for it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    connector: str
    stream: str
    sink: str
    target: str
    days: tuple[tuple[dt.date, dt.date], ...] = ()
    position: dt.date | None = None
    origin: dt.date | None = None
    updated_at: dt.datetime

    @property
    def done(self) -> DaySet:
        """The done days as a set."""
        return DaySet(ranges=self.days)

    @classmethod
    def of(cls, source: Source, sink: Sink, done: DaySet, origin: dt.date | None) -> Offset:
        """Make the offset of a stream from its done days."""
        return cls(
            connector=source.name,
            stream=source.stream_key,
            sink=sink.name,
            target=sink.target,
            days=done.ranges,
            position=done.position(origin),
            origin=origin,
            updated_at=dt.datetime.now(dt.UTC),
        )

    @classmethod
    def read(cls, source: Source, sink: Sink) -> Offset | None:
        """Return the offset of a stream, None if it never had one.

        :raises ConfigError: if its Variable holds something else.
        """
        key = variable_key(source, sink)
        text = variables.read(key)
        return None if text is None else _parse(key, text)

    @classmethod
    def set(cls, source: Source, sink: Sink, days: Iterable[dt.date], *, origin: dt.date | None = None) -> Offset:
        """Write an offset by hand. It stands until the stream's next task recomputes it from the ledger."""
        offset = cls.of(source, sink, DaySet.of(days), origin)
        variables.write(variable_key(source, sink), offset.model_dump_json(), _DESCRIPTION)
        return offset

    @classmethod
    def reset(cls, source: Source, sink: Sink) -> None:
        """Delete an offset. The stream's next task makes it anew from the ledger, which is left as it is."""
        variables.delete(variable_key(source, sink))

    @classmethod
    def list(cls) -> _Offsets:
        """Return the offsets of all streams, in the order of their Variables' names."""
        found = {key: variables.read(key) for key in variables.keys(PREFIX)}
        return [_parse(key, text) for key, text in found.items() if text is not None]


_Offsets = list[Offset]  # inside the class ``list`` is the method


def variable_key(source: Source, sink: Sink) -> str:
    """Return the name of the Variable: ``connect_offset/<connector>/<stream>/<sink>-<digest of its target>``."""
    target = hashlib.sha256(sink.target.encode()).hexdigest()[:8]
    key = f"{PREFIX}{source.name}/{source.stream_key}/{sink.name}-{target}"
    if len(key) <= _KEY_CHARS:
        return key
    return f"{key[: _KEY_CHARS - 17]}~{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def follow(source: Source, sink: Sink, ledger: Ledger, origin: dt.date | None) -> Offset:
    """Recompute the offset from the ledger until neither moves any more; return it.

    :raises ConfigError: if the Variable cannot be set, since an environment variable or a secrets backend
        has one of the same name.
    :raises RetriableError: if the ledger kept moving, or the Variable cannot be read back.
    """
    key = variable_key(source, sink)
    if origin is None:
        # A DAG without a start date, such as one for reloads by hand, leaves the stream's own origin where it is.
        stored = _try_parse(variables.read(key))
        origin = stored.origin if stored else None
    done = ledger.days()
    for _ in range(_ROUNDS):
        offset = Offset.of(source, sink, done, origin)
        before = variables.read(key)
        if not _says(before, offset):
            _warn_of_lead(key, before, offset)
            text = offset.model_dump_json()
            variables.write(key, text, _DESCRIPTION)
            after = variables.read(key)
            if after is None:
                raise RetriableError(f"Variable {key!r} was set, but cannot be read back")
            # Every text has its own instant, so one that reads as before was not written over. Another task's
            # text is none of our business: that task looks at the ledger again, too.
            if after == before:
                raise ConfigError(_shadowed(key))
        again = ledger.days()
        if again == done:
            return offset
        done = again
    raise RetriableError(f"offset {key!r}: the ledger moved {_ROUNDS} times while it was being followed")


def _says(text: str | None, offset: Offset) -> bool:
    """Tell whether a Variable says the same as ``offset``, whenever it was written."""
    stored = _try_parse(text)
    return stored is not None and stored.model_copy(update={"updated_at": offset.updated_at}) == offset


def _warn_of_lead(key: str, text: str | None, offset: Offset) -> None:
    if text is None:
        return
    stored = _try_parse(text)
    if stored is None:
        _log.warning("offset %s held something that is no offset; it is written anew from the ledger", key)
        return
    ahead = DaySet.of(set(stored.done) - set(offset.done))
    if len(ahead):
        spans = ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in ahead.ranges)
        _log.warning("offset %s held days that the sink's ledger does not have: %s; taken out again", key, spans)


def _parse(key: str, text: str) -> Offset:
    offset = _try_parse(text)
    if offset is None:
        raise ConfigError(f"Variable {key!r} is no offset: reset it, and the stream's next task makes it anew")
    return offset


def _try_parse(text: str | None) -> Offset | None:
    if text is None:
        return None
    try:
        return Offset.model_validate_json(text)
    except ValidationError:
        return None


def _shadowed(key: str) -> str:
    return (
        f"Variable {key!r} was set and still reads as before: an environment variable (AIRFLOW_VAR_…) or a secrets "
        "backend has a Variable of this name, which hides the one in the database; remove it there"
    )
