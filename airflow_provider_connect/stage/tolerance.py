"""How many bad records a day may have: the options ``errors_tolerance`` and ``max_rejects`` of sources and sinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from airflow_provider_connect.errors import DataError


@dataclass(frozen=True)
class Tolerance:
    """What is done about records that are bad.

    :param errors_tolerance: ``none`` lets the first one fail the day; ``all`` sets them aside as rejects.
    :param max_rejects: how many may be set aside.
    """

    errors_tolerance: Literal["none", "all"]
    max_rejects: int

    def allows(self, rejects: int) -> bool:
        """Tell whether there may be so many bad records."""
        return not rejects or (self.errors_tolerance == "all" and rejects <= self.max_rejects)

    def require(self, rejects: int, what: str) -> None:
        """Refuse more bad records than there may be.

        :param rejects: how many there are by now.
        :param what: what is wrong with the last ones, and where.
        :raises DataError: there are too many.
        """
        if self.allows(rejects):
            return
        if self.errors_tolerance == "none":
            raise DataError(f"{what}. Mend the source, or set bad records aside with errors_tolerance='all'")
        count = f"{rejects:,} rejects, more than max_rejects={self.max_rejects}"
        raise DataError(f"{count}: {what}. Mend the source, or raise max_rejects")
