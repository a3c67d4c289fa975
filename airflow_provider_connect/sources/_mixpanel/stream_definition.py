"""Definition of a Mixpanel stream: data about the API from which one poller makes rows."""

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

RECORD_KEY = RowColumn("string", "Key of the row: 32 hex digits, equal each time it is read.", required=True)

PROMOTED_COUNTS = {
    "promote_null.<property>": "values that do not fit the promoted column's type and become null",
    "promote_null_text.<property>": "texts of null_texts, which become null in the promoted column",
}
"""Counts of a stream with promoted properties."""

OTHER_DAY_COUNT = {"other_day": "dates in an answer that were not requested"}

BatchReader = Callable[["MixpanelStream", "MixpanelClient"], Iterator["pa.RecordBatch"]]
"""Function that reads a day or a snapshot and yields its rows. It returns only at the end of the data."""


def variant_by(*names: str) -> Callable[[MixpanelOptions], str]:
    """Return a function that names a stream's variant by the values of these options.

    Other values are another stream.
    """

    def variant(options: MixpanelOptions) -> str:
        values = json.dumps([getattr(options, name) for name in names])
        return hashlib.blake2b(values.encode(), digest_size=4).hexdigest()

    return variant


@dataclass(frozen=True)
class MixpanelStream:
    """One stream.

    :param summary: a row, in a few words.
    :param columns: columns of every row, in order. Promoted properties follow them.
    :param key: columns of ``record_key``.
    :param options: options of this stream. An option that no stream names belongs to all.
    :param variant: distinguishes streams of this name in a project, in the ledger and the record key: letters, digits,
        dot, dash and underscore. Empty for the only one.
    :param problems: problems of the options of this stream.
    :param min_requests: least number of counted requests for a day or snapshot.
    :param cost_text: the same in words.
    :param counts: counts in the report besides ``rows_read``, with their meaning.
    :param read_batches: reads the stream. None for the export, which has its own poller.
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
