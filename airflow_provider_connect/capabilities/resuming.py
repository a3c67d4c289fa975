"""Going on with the plan of a driver that died."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeGuard

from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.window import Day


class Resumes(ABC):
    """A poller whose whole partitions need not be polled again by the next try.

    Each partition must be right by itself, whenever it is polled, and need nothing that only the driver that planned it
    had, such as a session.
    """

    begins_anew: str = ""
    """For the log, the reason why this stream cannot do so, and the remedy; "" if it can."""

    @abstractmethod
    def resume(self, day: Day, parts: Sequence[InputPartition]) -> Sequence[InputPartition]:
        """Plan a day as an earlier try did. Driver; unless the partitions are the same, all of them are polled.

        :param parts: the earlier try's, from the stage, where others may write: check them.
        :raises ConnectError: as ``plan``.
        """


def resumes(poller: object) -> TypeGuard[Resumes]:
    """Return True if a plan of this poller's can be gone on with."""
    return isinstance(poller, Resumes) and not poller.begins_anew
