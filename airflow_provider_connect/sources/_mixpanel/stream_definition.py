"""Definition of a Mixpanel stream: API, columns, options and reader."""

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
"""Counts of streams with promoted properties, with descriptions."""

OTHER_DAY_COUNT = {"other_day": "dates in an answer that were not requested"}

BatchReader = Callable[["MixpanelStream", "MixpanelClient"], Iterator["pa.RecordBatch"]]
"""Yields the rows of a day or snapshot until the end of the data."""


def variant_by(*names: str) -> Callable[[MixpanelOptions], str]:
    """Return a function that hashes the named options."""

    def variant(options: MixpanelOptions) -> str:
        values = json.dumps([getattr(options, name) for name in names])
        return hashlib.blake2b(values.encode(), digest_size=4).hexdigest()

    return variant


@dataclass(frozen=True)
class MixpanelStream:
    """Definition of one stream.

    :param columns: of every row. Promoted properties follow.
    :param variant: returns a suffix for the stream's name, or "".
    :param min_requests: returns the least number of counted requests.
    :param counts: descriptions of the report's counts, except ``rows_read``.
    :param read_batches: reads the stream. None for the export.
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
