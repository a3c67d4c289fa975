"""Proposes what to promote from a sample: a person reads it, and sets it. It never shows a value."""

from __future__ import annotations

import datetime as dt
import json
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.findings import ProposalRequest
from airflow_provider_connect.polling.quota.turns import KeyStore, Turns, reserve_request
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.access import quota_of
from airflow_provider_connect.sources._mixpanel.columns import can_be_promoted, column_name, fold_name
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.poller import ExportPoller, QueryPoller
from airflow_provider_connect.sources._mixpanel.query.answers import text_or_none as as_text
from airflow_provider_connect.sources._mixpanel.records import REQUIRED_PROPERTIES
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.values.json.typed import read_dates, read_instants, read_plain
from airflow_provider_connect.window import Day

SampledStream = Literal["export", "engage"]
MAX_SAMPLE_RECORDS = 100_000
"""The most that one export can be limited to (https://developer.mixpanel.com/reference/raw-event-export, 2026-11)."""
NULL_TEXTS = ("undefined", "<null>")
"""Texts that clients send in place of nothing."""

FIXED_PROPERTIES: dict[SampledStream, frozenset[str]] = {
    "export": frozenset(REQUIRED_PROPERTIES),
    "engage": frozenset({"$last_seen"}),
}
"""Properties that are columns of every row."""

_JSON_TEXT = "{}"
_LOG = logging.getLogger(__name__)


class PropertySample(NamedTuple):
    """What a sample shows of one property.

    :param values: in how many records it has a value; null texts are none.
    :param misfits: how many of them do not fit the type, and would become null.
    :param null_texts: in how many records it is a null text.
    """

    property: str
    column: str
    type: str
    values: int
    misfits: int
    null_texts: int


@dataclass(frozen=True)
class Proposal:
    """Columns that a sample suggests; printed, it is text to paste into a DAG file.

    :param records: how many records the sample has.
    :param seen: the proposed properties, those in most records first.
    :param null_texts: the null texts that occur in them.
    :param fewer: how many properties are left out because others are in more records.
    :param empty: how many properties never have a value.
    :param impossible: how many properties have names that cannot be promoted.
    """

    records: int
    samples: tuple[PropertySample, ...]
    null_texts: tuple[str, ...]
    less_frequent: int
    empty: int
    unpromotable: int

    @property
    def promote(self) -> dict[str, str | tuple[str, str]]:
        """The option."""
        return {
            one.property: one.type if one.column == column_name(one.property) else (one.column, one.type)
            for one in self.samples
        }

    def __str__(self) -> str:
        lines = [f"# From {self.records} records: a day may hold what they do not. Types stay what you set."]
        lines += ["promote = {"]
        for one, wanted in zip(self.samples, self.promote.values(), strict=True):
            notes = [f"in {_percent(one.values, self.records)} of the records"]
            if one.misfits:
                notes.append(f"{_percent(one.misfits, one.values)} of its values do not fit and become null")
            if one.null_texts:
                notes.append(f"a null text in {_percent(one.null_texts, self.records)}")
            lines.append(f"    {one.property!r}: {wanted!r},  # {', '.join(notes)}")
        lines += ["}"]
        if self.null_texts:
            lines.append(f"null_texts = {list(self.null_texts)!r}")
        left_out = {
            "in fewer records": self.less_frequent,
            "without any value": self.empty,
            "whose names have quotes, backslashes or control characters": self.unpromotable,
        }
        if found := [f"{number} {why}" for why, number in left_out.items() if number]:
            lines.append(f"# Left out: properties {', '.join(found)}.")
        return "\n".join(lines)


def propose_columns(
    documents: Iterable[str],
    *,
    fixed_columns: Collection[str] = (),
    excluded: Collection[str] = (),
    max_columns: int = 50,
) -> Proposal:
    """Propose the columns of those properties that are in most records.

    The type is the one that most values fit; of several, the narrowest. A decimal is never proposed, because a sample
    does not show the digits to come, nor a time for numbers, because they do not say what they count.

    :param documents: each record's properties, as JSON.
    :param fixed: columns of every row.
    :param skip: properties to leave out.
    :param columns: how many columns to propose at most.
    """
    values: dict[str, list[Any]] = {}
    records = 0
    for document in documents:
        try:
            properties = json.loads(document)
        except (ValueError, RecursionError):  # a number too long, or nested too deep
            continue
        records += 1
        for name, value in properties.items():
            if name not in excluded:
                found = values.setdefault(name, [])
                if value is not None:
                    found.append(as_text(value) if isinstance(value, str) else value)
    possible = {name: found for name, found in values.items() if can_be_promoted(name)}
    judged = [_judged(name, found) for name, found in possible.items()]
    filled = sorted((one for one in judged if one.values), key=lambda one: (-one.values, one.property))
    named = tuple(_named(filled[:max_columns], fixed_columns))
    shown = {one.property for one in named}
    return Proposal(
        records=records,
        samples=named,
        null_texts=tuple(text for text in NULL_TEXTS if any(text in _texts(possible[name]) for name in shown)),
        less_frequent=len(filled) - len(named),
        empty=len(judged) - len(filled),
        unpromotable=len(values) - len(possible),
    )


def propose_from_sample(connection: Connection, request: ProposalRequest, *, store: KeyStore | None = None) -> Proposal:
    """Propose columns from a sample: one query of the project's hour.

    :param request: by default 1,000 events of yesterday in UTC, and 50 columns. A snapshot of profiles is taken now.
    :param store: where the requests of all tasks are counted; None for nowhere.
    :raises ConnectError: as a poll does; :class:`.ConfigError` for limits that nothing fits, and
        :class:`.QuotaError` if the hour has no room: then nothing was asked.
    """
    records = 1000 if request.records is None else request.records
    columns = 50 if request.columns is None else request.columns
    stream: Any = request.stream or "export"
    if stream not in FIXED_PROPERTIES or not 1 <= records <= MAX_SAMPLE_RECORDS or columns < 1:
        raise ConfigError(
            f"stream is one of {', '.join(FIXED_PROPERTIES)}; records lie between 1 and {MAX_SAMPLE_RECORDS}, and columns is at "
            "least 1"
        )
    today = dt.datetime.now(dt.UTC).date()
    asked = today if stream == "engage" else request.day or today - dt.timedelta(days=1)
    found = _sample(connection, stream, Day(date=asked), records, store)
    return propose_columns(
        found, fixed_columns=(*STREAMS[stream].columns, "day"), excluded=FIXED_PROPERTIES[stream], max_columns=columns
    )


def _sample(connection: Connection, stream: SampledStream, day: Day, records: int, store: KeyStore | None) -> list[str]:
    """Return the properties of the first events of a day, or of the first profiles."""
    options = MixpanelOptions(conn_id=connection.conn_id, stream=stream, errors_tolerance="all")
    poller = (
        ExportPoller(options, connection) if stream == "export" else QueryPoller(STREAMS[stream], options, connection)
    )
    (part,) = poller.plan([day])
    asked = part.model_copy(update={"params": part.params | {"limit": str(records)}})
    quota = quota_of(connection, STREAMS[stream].api)
    turns = Turns(store, quota) if store is not None and quota is not None else None
    found: list[str] = []
    tally = Tally()
    with (
        reserve_request(turns, "propose", _not_counted, tally.sent),
        poller,
        closing(poller.poll(asked, tally)) as batches,  # type: ignore[type-var]  # a generator
    ):
        for _, batch in batches:
            found += batch["properties"].to_pylist()
            if len(found) >= records:
                break
    return found[:records]


def _not_counted(why: str) -> None:
    _LOG.warning("The query for a sample is not counted with those of the tasks: %s.", why)


def _judged(name: str, found: list[Any]) -> PropertySample:
    """Return the type that most values fit; the column is not known yet."""
    texts = _texts(found)
    null_texts = sum(found.count(text) for text in NULL_TEXTS if text in texts)
    values = [value for value in found if not (isinstance(value, str) and value in NULL_TEXTS)]
    misfits = {kind: count(values) for kind, count in _MISFITS.items()}
    kind = min(misfits, key=misfits.__getitem__)
    return PropertySample(name, "", kind, len(values), misfits[kind], null_texts)


def _plainly(kind: str) -> Callable[[list[Any]], int]:
    return lambda values: read_plain(values, kind, set(map(type, values)))[1]


def _as_string(values: list[Any]) -> int:
    written = [_JSON_TEXT if isinstance(value, dict | list) else value for value in values]
    return read_plain(written, "string", set(map(type, written)))[1]


_MISFITS: dict[str, Callable[[list[Any]], int]] = {
    "boolean": _plainly("boolean"),
    "bigint": _plainly("bigint"),
    "double": _plainly("double"),
    "date": lambda values: read_dates(values)[1],
    "timestamp": lambda values: read_instants(values)[1],
    "string": _as_string,
}
"""How many values a load would make null, by type; narrow types first."""


def _texts(found: list[Any]) -> set[str]:
    return {value for value in found if isinstance(value, str)}


def _named(seen: list[PropertySample], fixed: Collection[str]) -> Iterable[PropertySample]:
    """Give each property a column that no other has."""
    taken = {fold_name(name) for name in fixed}
    for one in seen:
        column = first = column_name(one.property)
        number = 1
        while not column or fold_name(column) in taken:
            number += 1
            column = f"{first or 'unnamed'}_{number}"
        taken.add(fold_name(column))
        yield one._replace(column=column)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %"
