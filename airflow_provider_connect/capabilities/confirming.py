"""Noting that a day's answer is the published one."""

from abc import ABC, abstractmethod

from airflow_provider_connect.sink import LedgerRow, Publish


class Confirms(ABC):
    """A publisher of which an unchanged day is not published again."""

    @abstractmethod
    def confirm(self, publish: Publish) -> LedgerRow:
        """Make the day's row what :func:`.publishing.confirmed` returns. Driver, instead of a publish; safe to repeat.

        No data, no new generation; the conditions and errors of a commit. The staged files are not wanted any more.
        """
