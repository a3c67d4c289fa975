"""Proposes the option ``promote`` from sampled records, without their values."""

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
"""Greatest ``limit`` of an export (https://developer.mixpanel.com/reference/raw-event-export, 2026-11)."""
NULL_TEXTS = ("undefined", "<null>")
"""Texts that clients send for a missing value."""

FIXED_PROPERTIES: dict[SampledStream, frozenset[str]] = {
    "export": frozenset(REQUIRED_PROPERTIES),
    "engage": frozenset({"$last_seen"}),
}
"""Properties that are columns of every row, by stream."""

_JSON_TEXT = "{}"
_LOG = logging.getLogger(__name__)


class PropertySample(NamedTuple):
    """Statistics of one property in a sample.

    :param values: number of values, without null texts.
    :param misfits: of another type.
    """

    property: str
    column: str
    type: str
    values: int
    misfits: int
    null_texts: int


@dataclass(frozen=True)
class Proposal:
    """Proposed columns. ``str()`` returns text for a DAG file.

    :param samples: proposed properties, the most frequent first.
    :param less_frequent: number of omitted properties.
    :param empty: number of properties without values.
    """

    records: int
    samples: tuple[PropertySample, ...]
    null_texts: tuple[str, ...]
    less_frequent: int
    empty: int
    unpromotable: int

    @property
    def promote(self) -> dict[str, str | tuple[str, str]]:
        """Value for the option ``promote``."""
        return {
            sample.property: sample.type
            if sample.column == column_name(sample.property)
            else (sample.column, sample.type)
            for sample in self.samples
        }

    def __str__(self) -> str:
        lines = [f"# From {self.records} records. Other days may contain other values. The types stay as you set them."]
        lines += ["promote = {"]
        for sample, entry in zip(self.samples, self.promote.values(), strict=True):
            notes = [f"in {_percent(sample.values, self.records)} of the records"]
            if sample.misfits:
                notes.append(f"{_percent(sample.misfits, sample.values)} of its values do not fit and become null")
            if sample.null_texts:
                notes.append(f"a null text in {_percent(sample.null_texts, self.records)}")
            lines.append(f"    {sample.property!r}: {entry!r},  # {', '.join(notes)}")
        lines += ["}"]
        if self.null_texts:
            lines.append(f"null_texts = {list(self.null_texts)!r}")
        left_out = {
            "in fewer records": self.less_frequent,
            "without any value": self.empty,
            "whose names have quotes, backslashes or control characters": self.unpromotable,
        }
        if omissions := [f"{number} {reason}" for reason, number in left_out.items() if number]:
            lines.append(f"# Left out: properties {', '.join(omissions)}.")
        return "\n".join(lines)


def propose_columns(
    documents: Iterable[str],
    *,
    fixed_columns: Collection[str] = (),
    excluded: Collection[str] = (),
    max_columns: int = 50,
) -> Proposal:
    """Propose the most frequent properties, each with the narrowest type that fits most values."""
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
                property_values = values.setdefault(name, [])
                if value is not None:
                    property_values.append(as_text(value) if isinstance(value, str) else value)
    promotable = {name: property_values for name, property_values in values.items() if can_be_promoted(name)}
    samples = [_judge_type(name, property_values) for name, property_values in promotable.items()]
    nonempty = sorted(
        (sample for sample in samples if sample.values), key=lambda sample: (-sample.values, sample.property)
    )
    proposed = tuple(_with_unique_columns(nonempty[:max_columns], fixed_columns))
    proposed_names = {sample.property for sample in proposed}
    return Proposal(
        records=records,
        samples=proposed,
        null_texts=tuple(
            text for text in NULL_TEXTS if any(text in _texts(promotable[name]) for name in proposed_names)
        ),
        less_frequent=len(nonempty) - len(proposed),
        empty=len(samples) - len(nonempty),
        unpromotable=len(values) - len(promotable),
    )


def propose_from_sample(connection: Connection, request: ProposalRequest, *, store: KeyStore | None = None) -> Proposal:
    """Read a sample and propose columns. Costs one query.

    :param request: default: 1,000 events of yesterday (UTC), 50 columns.
    :raises ConnectError: as :meth:`.Poller.poll`. ConfigError also for invalid limits.
    :raises QuotaError: the hour has no room.
    """
    records = 1000 if request.records is None else request.records
    columns = 50 if request.columns is None else request.columns
    stream: Any = request.stream or "export"
    if stream not in FIXED_PROPERTIES or not 1 <= records <= MAX_SAMPLE_RECORDS or columns < 1:
        raise ConfigError(
            f"stream must be one of {', '.join(FIXED_PROPERTIES)}, records between 1 and {MAX_SAMPLE_RECORDS}, and "
            "columns at least 1"
        )
    today = dt.datetime.now(dt.UTC).date()
    date = today if stream == "engage" else request.day or today - dt.timedelta(days=1)
    documents = _fetch_sample(connection, stream, Day(date=date), records, store)
    return propose_columns(
        documents,
        fixed_columns=(*STREAMS[stream].columns, "day"),
        excluded=FIXED_PROPERTIES[stream],
        max_columns=columns,
    )


def _fetch_sample(
    connection: Connection, stream: SampledStream, day: Day, records: int, store: KeyStore | None
) -> list[str]:
    options = MixpanelOptions(conn_id=connection.conn_id, stream=stream, errors_tolerance="all")
    poller = (
        ExportPoller(options, connection) if stream == "export" else QueryPoller(STREAMS[stream], options, connection)
    )
    (part,) = poller.plan([day])
    sample_part = part.model_copy(update={"params": part.params | {"limit": str(records)}})
    quota = quota_of(connection, STREAMS[stream].api)
    turns = Turns(store, quota) if store is not None and quota is not None else None
    documents: list[str] = []
    tally = Tally()
    with (
        reserve_request(turns, "propose", _warn_uncounted, tally.sent),
        poller,
        closing(poller.poll(sample_part, tally)) as batches,  # type: ignore[type-var]  # a generator
    ):
        for _, batch in batches:
            documents += batch["properties"].to_pylist()
            if len(documents) >= records:
                break
    return documents[:records]


def _warn_uncounted(reason: str) -> None:
    _LOG.warning("The sample's query is not counted with the tasks' queries: %s.", reason)


def _judge_type(name: str, values_or_texts: list[Any]) -> PropertySample:
    texts = _texts(values_or_texts)
    null_texts = sum(values_or_texts.count(text) for text in NULL_TEXTS if text in texts)
    values = [value for value in values_or_texts if not (isinstance(value, str) and value in NULL_TEXTS)]
    misfits = {kind: count(values) for kind, count in _MISFITS.items()}
    kind = min(misfits, key=misfits.__getitem__)
    return PropertySample(name, "", kind, len(values), misfits[kind], null_texts)


def _misfit_counter(kind: str) -> Callable[[list[Any]], int]:
    return lambda values: read_plain(values, kind, set(map(type, values)))[1]


def _as_string(values: list[Any]) -> int:
    texts = [_JSON_TEXT if isinstance(value, dict | list) else value for value in values]
    return read_plain(texts, "string", set(map(type, texts)))[1]


_MISFITS: dict[str, Callable[[list[Any]], int]] = {
    "boolean": _misfit_counter("boolean"),
    "bigint": _misfit_counter("bigint"),
    "double": _misfit_counter("double"),
    "date": lambda values: read_dates(values)[1],
    "timestamp": lambda values: read_instants(values)[1],
    "string": _as_string,
}
"""Counts, by type, the values that a load would make null. Narrow types come first."""


def _texts(values: list[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str)}


def _with_unique_columns(samples: list[PropertySample], fixed: Collection[str]) -> Iterable[PropertySample]:
    taken_columns = {fold_name(name) for name in fixed}
    for sample in samples:
        column = base_name = column_name(sample.property)
        number = 1
        while not column or fold_name(column) in taken_columns:
            number += 1
            column = f"{base_name or 'unnamed'}_{number}"
        taken_columns.add(fold_name(column))
        yield sample._replace(column=column)


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:.3g} %"
