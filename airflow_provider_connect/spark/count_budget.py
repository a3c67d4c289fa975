"""The requests that a job may send for the vendor's own counts."""

from __future__ import annotations

import time
from typing import Any

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.job import Allowance
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.polling.tally import Tally


class CountBudget:
    """The requests that a job may send for counts. Without an allowance they are not limited.

    :ivar sent: when requests were sent.
    :ivar said: what the vendor said when it refused one, for want of room in its hour.
    :ivar is_reserved: false where the vendor limits counts, and the task has reserved none: only some days need them.
    """

    def __init__(self, allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self.sent_at: list[float] = []
        self.quota_refusal: tuple[int, int, float] | None = None
        self.is_reserved = True

    def require(self, requests: int) -> None:
        """Make sure that so many may be sent.

        :raises QuotaError: they may not.
        """
        if not self.is_reserved:
            raise QuotaError("no requests are reserved for the vendor's counts, and a day takes some")
        if self._allowance is None:
            return
        left = self._allowance.requests - len(self.sent_at)
        if requests > left:
            raise QuotaError(
                f"the job may send {left} more of its {self._allowance.requests} requests for the vendor's counts, and "
                f"a day takes up to {requests}"
            )
        if time.time() >= self._allowance.until:
            raise QuotaError("the reservation of the job's requests for the vendor's counts has lapsed")

    def tally(self) -> Tally:
        """Return a tally for one count, which keeps to the pace."""
        return _Paced(self._allowance.per_second if self._allowance else None)

    def report_fields(self) -> dict[str, Any]:
        """Return what the job's report says of these requests."""
        return {"counted": tuple(self.sent_at), "count_said": self.quota_refusal}


class _Paced(Tally):
    def __init__(self, per_second: int | None) -> None:
        super().__init__()
        self._pause = 1 / per_second if per_second else 0.0

    def request(self) -> None:
        super().request()
        CLOCK.sleep(self._pause)
