"""Counting how a reload differs from the publish that it takes the place of."""

from abc import ABC, abstractmethod

from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.differences import Differences


class TellsDifferences(ABC):
    """A publisher that compares a staged day with the published one."""

    @abstractmethod
    def differences(self, publish: Publish) -> Differences | None:
        """Count against the generation ``seen``; None if that is not known. Driver, before the publish."""


class CommitCountsDifferences:
    """A publisher whose commit puts these counts into the ledger row: its rows are comparable only in the sink."""
