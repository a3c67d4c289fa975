"""Several days in one request."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from airflow_provider_connect.source import Poller
from airflow_provider_connect.window import Day

Sizes = Callable[[], Sequence[int]]
"""Asks for the sizes of the days nearest to the next one, in bytes after decoding, as far as they are known."""


class Together(NamedTuple):
    """How many days the next plan takes, and the reason for the log; "" for none."""

    days: int
    why: str = ""


class SeveralDaysARequest:
    """A poller whose plan may take consecutive days together, because one request serves them."""

    days_per_plan: int
    """The most days that one plan may take."""

    def days_together(self, wanted: Sequence[Day], sizes: Sizes) -> Together:
        """Return how many days the next plan should take; all that it may by default. Driver, before each plan.

        :param wanted: all days of the job.
        """
        return Together(self.days_per_plan)


def days_per_plan(poller: Poller) -> int:
    """Return the most days that one plan of a poller may take."""
    return poller.days_per_plan if isinstance(poller, SeveralDaysARequest) else 1
