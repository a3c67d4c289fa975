"""Poller of snapshots. A retry can keep chunks that were read."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_connect.capabilities.poller import Resumes
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import InputPartition, PollContext
from airflow_provider_connect.sources._sql.chunks import key_from_json
from airflow_provider_connect.sources._sql.options import SqlOptions
from airflow_provider_connect.sources._sql.poller import SqlPoller
from airflow_provider_connect.window import Day

_STARTS_OVER_REASON = (
    "they shared a snapshot, which ended with that try. With consistency='chunk' a retry keeps finished chunks, but "
    "each chunk is read at another moment"
)


class SqlSnapshotPoller(SqlPoller, Resumes):
    """Polls a snapshot. With ``consistency="chunk"`` a retry can resume."""

    def __init__(self, options: SqlOptions, connection: Connection, context: PollContext) -> None:
        super().__init__(options, connection, context)
        self.begins_anew = "" if self._resumes else _STARTS_OVER_REASON

    def resume(self, day: Day, parts: Sequence[InputPartition]) -> list[InputPartition]:
        """Plan the chunks of an earlier try, between the same keys, or [] if they do not fit this table."""
        self._require_day(day)
        shape, _ = self._inspect()
        try:
            keys = [key_from_json(part.params.get("upto"), len(shape.key)) for part in parts[:-1]]
        except ValueError:
            return []
        with self._open_session(str(day)) as database:
            chunk_params = self._chunk_params(database, shape, keys)
        return [InputPartition(days=(day,), index=index, params=params) for index, params in enumerate(chunk_params)]
