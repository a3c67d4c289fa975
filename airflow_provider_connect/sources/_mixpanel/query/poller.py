"""Polls any stream of the Query API: asks as the stream says, and succeeds only if the end was seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.polling.days import require_begun, require_over
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import InputPartition, Poller
from airflow_provider_connect.sources._mixpanel import asking
from airflow_provider_connect.sources._mixpanel.access import Access
from airflow_provider_connect.sources._mixpanel.columns import schema
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.stream import Stream
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa


class QueryPoller(Poller):
    """Polls one stream; a day, or a snapshot, is one partition."""

    def __init__(self, stream: Stream, options: MixpanelOptions, connection: Connection) -> None:
        self._stream = stream
        self._options = options
        self._connection = connection

    def schema(self) -> pa.Schema:
        """Return the schema of the stream's rows."""
        return schema(self._options.promoted, self._stream.columns)

    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Return one partition for each day.

        :raises ConfigError: if a day is another zone's, or lies ahead.
        :raises RetriableError: if a day ends within the hour; a snapshot may be taken while its day lasts.
        """
        return [self._partition(index, day) for index, day in enumerate(days)]

    def _partition(self, index: int, day: Day) -> InputPartition:
        zone = self._options.zone
        if self._stream.kind == "day":
            require_over(day, zone, asking.now())
        else:
            require_begun(day, zone, asking.now())
        return InputPartition(days=(day,), index=index)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a day, or of the snapshot taken now.

        :raises RetriableError: if the API is away, in trouble or busy, or an answer is not whole.
        :raises ConfigError: if credentials, rights, plan or options are wrong.
        :raises DataError: if what came is bad, and not tolerated.
        """
        (day,) = part.days
        read = self._stream.read
        assert read is not None, "the export has a poller of its own"
        access = Access.from_connection(self._connection, self._stream.api)
        with closing(asking.Asking(self._options, access, day, tally)) as there:
            for batch in read(self._stream, there):
                if batch.num_rows:
                    yield day, batch
