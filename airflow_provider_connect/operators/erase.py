"""Takes people's rows out of what a stream has published, and keeps them out of later loads.

>>> print(erase(source, sink, ["u-17", "u-18"]))
/data/lake/events has 1,204 rows of 31 days with 2 values of 'distinct_id'; nothing was changed.
>>> print(erase(source, sink, ["u-17", "u-18"], mode="erase"))
1,204 rows of 31 days with 2 values of 'distinct_id' are erased from /data/lake/events, and later loads leave them out
(version 1 of its erase list).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.config import nearest
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import credentials
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.erasing import Erasure

_LOG = logging.getLogger(__name__)


def erase(
    source: Source,
    sink: Sink,
    values: Sequence[str],
    *,
    column: str = "distinct_id",
    mode: Literal["count", "erase"] = "count",
    connections: Connections | None = None,
) -> Erasure:
    """Count or erase the rows whose ``column`` holds one of the values. Needs no Spark; asks the sink alone.

    No job need stand still: one that has polled such rows and not published them yet polls again. After an error the
    same call does the rest.

    :param source: names the stream: its options as the DAG has them.
    :param mode: ``count`` changes nothing.
    :param connections: the sink's, by id; by default Airflow's.
    :raises ConfigError: the sink cannot erase; it has no such column, or the source has none.
    :raises RetriableError: the sink is away, or others kept winning the race.
    """
    resolved = connections
    if resolved is None:
        resolved = {conn_id: credentials.resolve(conn_id) for conn_id in sink.connection_ids}
    wanted = list(dict.fromkeys(values))
    if not wanted or not all(wanted):
        raise ConfigError("values: name whose rows are meant, none of them with an empty text")
    _require_column(source, column)
    key = StreamKey(connector=source.name, stream=source.stream_key)
    with closing_quietly(sink.open(key, resolved), _LOG.warning) as publisher:
        if not publisher.can_erase:
            raise ConfigError(f"{type(sink).__name__} cannot erase: delete the rows in {sink.target} by its own means")
        if mode == "erase":
            # Asked after it, an error would hide what was done.
            not_searched = publisher.not_searched()
            return replace(publisher.erase(column, wanted, source.kind), not_searched=not_searched)
        found = publisher.find(column, wanted)
        return Erasure(sink.target, column, len(wanted), found, not_searched=publisher.not_searched())


def _require_column(source: Source, column: str) -> None:
    """Check that the source's rows say whose they are: later loads must be able to leave them out.

    A sink may know the column all the same: under the name that it gave it, or from days that had it.

    :raises ConfigError: they do not.
    """
    names = source.column_names()
    if names is not None and column not in names:
        raise ConfigError(
            f"nothing was changed: the source's rows have no column {column!r}, so later loads could not leave rows "
            f"out by it; name it as the source does: {nearest(column, names)}"
        )
