"""Noting that a day's answer is the published one."""

from abc import ABC, abstractmethod

from airflow_provider_connect.sink import LedgerRow, Publish


class Confirms(ABC):
    """A publisher of which an unchanged day is not published again."""

    @abstractmethod
    def confirm(self, publish: Publish) -> LedgerRow:
        """Note that the published answer was given once more. Driver, instead of a publish; safe to repeat.

        It writes no data and counts no generation: in one step the day's row becomes what :func:`.publishing.confirmed`
        returns, on the conditions and with the errors of a commit. An intent that the ledger has already is answered
        from the ledger. A sink whose stage stays deletes the staged files, at the latest in its sweep.
        """
