"""What a stream of Mixpanel is: data about the API, from which one poller makes the rows of any stream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.polling.columns import RowColumn
from airflow_provider_connect.sources._mixpanel.access import Api
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions, StreamName
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sources._mixpanel.client import MixpanelClient

RECORD_KEY = RowColumn("string", "Identity of the row, 32 hex digits: the same whenever it is read.", required=True)

PROMOTED_COUNTS = {
    "promote_null.<property>": "values that do not fit the type of the promoted column, and are null there",
    "promote_null_text.<property>": "texts of null_texts, which are null in the promoted column",
}
"""Counts of a stream with promoted properties."""

OTHER_DAY_COUNT = {"other_day": "dates in an answer that were not asked for"}

BatchReader = Callable[["MixpanelStream", "MixpanelClient"], Iterator["pa.RecordBatch"]]
"""Asks the API for a day, or a snapshot, and yields all its rows; ends normally only at the end of the data."""


def variant_by(*names: str) -> Callable[[MixpanelOptions], str]:
    """Return a variant for streams whose options make the question: another question is another stream."""

    def variant(options: MixpanelOptions) -> str:
        asked = json.dumps([getattr(options, name) for name in names])
        return hashlib.blake2b(asked.encode(), digest_size=4).hexdigest()

    return variant


@dataclass(frozen=True)
class MixpanelStream:
    """One stream.

    :param about: what a row is, in a few words.
    :param columns: of every row, in order; promoted properties follow them.
    :param key: the columns that ``record_key`` is made from.
    :param options: names of the options that belong to it. One that no stream names belongs to all of them.
    :param variant: what tells it from other streams of this name in the same project: letters, digits, dot, dash and
        underscore; part of ledger and record key. "" for the only one.
    :param problems: what is wrong with the options together, beside what holds for every stream.
    :param requests: how many requests that count to the API's hour a day, or a snapshot, costs at least.
    :param cost: the same in words, for people.
    :param counts: what its polls count in the report, beside ``rows_read``: each name, and what is counted.
    :param read: how it is read; None for the export, whose lines have a poller of their own.
    """

    name: StreamName
    kind: SourceKind
    api: Api
    summary: str
    columns: Mapping[str, RowColumn]
    key: tuple[str, ...]
    options: frozenset[str] = field(default_factory=frozenset)
    variant: Callable[[MixpanelOptions], str] = lambda _: ""
    problems: Callable[[MixpanelOptions], list[str]] = lambda _: []
    min_requests: Callable[[MixpanelOptions], int] = lambda _: 1
    cost_text: str = "1"
    counts: Mapping[str, str] = field(default_factory=dict)
    read_batches: BatchReader | None = None
