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
from typing import Literal

from airflow_provider_connect.closing import closing_quietly
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
    :raises ConfigError: the sink cannot erase, or has no such column.
    :raises RetriableError: the sink is away, or others kept winning the race.
    """
    found = connections
    if found is None:
        found = {conn_id: credentials.resolve(conn_id) for conn_id in sink.connection_ids}
    wanted = list(dict.fromkeys(values))
    if not wanted or not all(wanted):
        raise ConfigError("values: name whose rows are meant, none of them with an empty text")
    key = StreamKey(connector=source.name, stream=source.stream_key)
    with closing_quietly(sink.open(key, found), _LOG.warning) as publisher:
        if not publisher.can_erase:
            raise ConfigError(f"{type(sink).__name__} cannot erase: delete the rows in {sink.target} by its own means")
        if mode == "erase":
            return publisher.erase(column, wanted, source.kind)
        return Erasure(sink.target, column, len(wanted), publisher.find(column, wanted))
