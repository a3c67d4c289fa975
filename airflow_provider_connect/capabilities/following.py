"""Increments: streams whose days begin where the last one ended."""

from abc import ABC, abstractmethod

from airflow_provider_connect.window import Day


class Follows(ABC):
    """A poller of a stream whose ``kind`` is ``increment``."""

    @abstractmethod
    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix which rows the next plans of a day read; return where they end. Driver, before ``plan``.

        A plan without it, as for ``spark.read``, reads from the beginning of the stream.

        :param after: the position behind which they begin; None at the beginning of the stream.
        :param to: the position up to which an earlier load of the day has read; None to read up to the source's end.
        :return: ``to``, or the last position of the increment; ``after`` if nothing came behind it. At most
            :data:`.stage.spans.MOST_CHARACTERS` characters, which the ledger keeps: no secret.
        :raises ConfigError: the position is none of this source's.
        :raises RowsLostError: rows to come would be skipped, and the source is no :class:`ReloadsWhenLost`.
        """


class ReloadsWhenLost:
    """A source that reads all rows again when its stream cannot be followed any more."""
