"""Days in several partitions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from airflow_provider_connect.window import Day


class Splits(ABC):
    """A poller that plans a day in more partitions after a request ran into its deadline."""

    @abstractmethod
    def split(self, day: Day, more_than: int) -> None:
        """Have the next plan of a day take more partitions than so many, if it can. Driver; the count comes after it.

        :param more_than: 0 plans the day again as if nothing had happened.
        """


class AcceptsParts(ABC):
    """A poller with something to do once all partitions of a day are polled."""

    @abstractmethod
    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Refuse partitions that are good each and not together, and close what was open for them. Driver.

        :param counts: of all of them, by name.
        :raises DataError: for example, too many records were set aside.
        """


class LimitsPartitions:
    """A poller that says how many partitions of a plan are polled at the same time; None for as many as have room."""

    partitions_at_once: int | None = None
