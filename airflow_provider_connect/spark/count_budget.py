"""The budget of requests for the vendor's own row counts."""

from __future__ import annotations

import time
from typing import Any

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.job import Allowance
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.polling.tally import Tally


class CountBudget:
    """Limits a job's requests for the vendor's row counts. Unlimited without an allowance.

    :ivar sent_at: times of sent requests, in seconds since 1970.
    :ivar quota_refusal: figures of the vendor's refusal, if its hourly quota was used up.
    :ivar is_reserved: false if counts have a quota of which the task reserved nothing, because few days need a count.
    """

    def __init__(self, allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self.sent_at: list[float] = []
        self.quota_refusal: tuple[int, int, float] | None = None
        self.is_reserved = True

    def require(self, requests: int) -> None:
        """Check that this many requests may be sent.

        :raises QuotaError: too few requests are left, or their reservation has expired.
        """
        if not self.is_reserved:
            raise QuotaError("no requests are reserved for the vendor's counts, which reconcile= needs")
        if self._allowance is None:
            return
        requests_left = self._allowance.requests - len(self.sent_at)
        if requests > requests_left:
            raise QuotaError(
                f"the job may send {requests_left} more of its {self._allowance.requests} requests for the vendor's "
                f"counts, but a day may need {requests}"
            )
        if time.time() >= self._allowance.until:
            raise QuotaError("the reservation of the job's requests for the vendor's counts has expired")

    def tally(self) -> Tally:
        """Return a tally for one count. It pauses after each request, to keep the allowed rate."""
        return _PacedTally(self._allowance.per_second if self._allowance else None)

    def report_fields(self) -> dict[str, Any]:
        """Return the report's fields about these requests."""
        return {"counted": tuple(self.sent_at), "count_said": self.quota_refusal}


class _PacedTally(Tally):
    def __init__(self, per_second: int | None) -> None:
        super().__init__()
        self._pause = 1 / per_second if per_second else 0.0

    def request(self) -> None:
        super().request()
        CLOCK.sleep(self._pause)
