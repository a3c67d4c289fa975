"""Shares the job's request allowance among partitions, so that all executors together never exceed it."""

from __future__ import annotations

import datetime as dt
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.job import Allowance
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.spark.count_budget import CountBudget

if TYPE_CHECKING:
    from airflow_provider_connect.source import InputPartition
    from airflow_provider_connect.spark.poll import PollOutcome


class BudgetShare:
    """Requests that the partitions of one plan may send.

    :param requests_by_partition: None without a quota.
    """

    def __init__(
        self, parts: Sequence[InputPartition], requests_by_partition: Sequence[int] | None, allowance: Allowance | None
    ) -> None:
        self._parts, self._requests_by_partition, self._allowance = parts, requests_by_partition, allowance
        self.outcomes: Sequence[PollOutcome] | None = None
        self._started_at = time.time()

    @property
    def total(self) -> int:
        """Number of requests in the share."""
        return sum(self._requests_by_partition or ())

    def limits(self, partition: InputPartition) -> dict[str, Any]:
        """Return the fields of a partition's :class:`.PollTask` that limit its requests."""
        if self._requests_by_partition is None or self._allowance is None:
            return {}
        failed = max(self._allowance.failed.get(day.date, 0) for day in partition.days)
        index = self._parts.index(partition)
        # Otherwise the first polls of all partitions would fall into one second.
        begins = self._started_at + (index / self._allowance.per_second if self._allowance.per_second else 0.0)
        return {
            "requests": self._requests_by_partition[index],
            "until": self._allowance.until,
            "failed": failed,
            "begins": begins,
        }


class RequestBudget:
    """Gives requests to partitions, and takes unsent ones back. Unlimited without an allowance.

    :ivar possibly_sent: further requests that lost tasks may have sent.
    :ivar failed_requests: by day, requests of failed polls, including earlier jobs of the same try.
    :ivar requests_needed: by day, the requests of a plan that exceeded the budget.
    :ivar requests_before_refusal: by day, the fewest requests that a poll takes, if the quota ended halfway.
    """

    def __init__(self, allowance: Allowance | None = None, count_allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self.count_budget = CountBudget(count_allowance)
        self._requests_left = allowance.requests if allowance else 0
        self._expected_requests, self._max_requests_each = 0, 1
        self._lock = threading.Lock()
        self._next_start = 0.0
        self.sent_at: list[float] = []
        self.possibly_sent = 0
        self.failed_requests: dict[dt.date, int] = dict(allowance.failed) if allowance else {}
        self.requests_needed: dict[dt.date, int] = {}
        self.requests_before_refusal: dict[dt.date, int] = {}

    @property
    def max_days(self) -> int:
        """Most days that may be polled concurrently."""
        return self._allowance.width if self._allowance else sys.maxsize

    def expect(self, expected_requests: int, *, max_requests_each: int) -> None:
        """Set how many requests the job's days cost without failures. Further requests are for retries."""
        self._expected_requests, self._max_requests_each = expected_requests, max_requests_each

    @contextmanager
    def reserve(self, partitions: Sequence[InputPartition], cost: int) -> Iterator[BudgetShare]:
        """Give partitions their requests. When the block ends, take unsent ones back.

        Without outcomes by then, all requests count as sent.

        :param cost: requests of all partitions together, without failures.
        :raises QuotaError: too few requests are left, or the reservation has expired.
        """
        if self._allowance is None or not partitions:
            yield BudgetShare(partitions, None, None)
            return
        share = self._make_share(partitions, cost, self._allowance)
        try:
            yield share
        finally:
            self._take_back(partitions, share)

    def report_fields(self) -> dict[str, Any]:
        """Return the report's fields about the job's requests."""
        if self._allowance is None:
            return {}
        with self._lock:
            optional_fields = {"needs": dict(self.requests_needed)} if self.requests_needed else {}
            optional_fields |= {"ran_out": dict(self.requests_before_refusal)} if self.requests_before_refusal else {}
            return {
                "sent": tuple(self.sent_at),
                "lost": self.possibly_sent,
                "failed": dict(self.failed_requests),
            } | optional_fields

    def _make_share(self, partitions: Sequence[InputPartition], requests: int, allowance: Allowance) -> BudgetShare:
        cost = max(requests, len(partitions))
        with self._lock:
            if cost > self._requests_left:
                if len(partitions) > 1:
                    self.requests_needed |= {partitions[0].days[0].date: cost}
                # Consecutive pages count too, and their number is unknown before the poll.
                requests_left = max(0, self._requests_left)
                raise QuotaError(f"the job may send {requests_left} more of its {allowance.requests} requests")
            if time.time() >= allowance.until:
                raise QuotaError("the reservation of the job's requests has expired")
            self._expected_requests -= requests  # parts of a large day leave the requests of other days alone
            spare = max(0, self._requests_left - cost - max(0, self._expected_requests))
            requests_by_partition = [
                cost // len(partitions) + (index < cost % len(partitions)) for index in range(len(partitions))
            ]
            for index in range(len(partitions)):
                extra_requests = min(self._max_requests_each - 1, spare)
                requests_by_partition[index] += extra_requests
                spare -= extra_requests
            self._requests_left -= sum(requests_by_partition)
            pause = self._wait_for_rate(len(partitions), allowance)
        CLOCK.sleep(pause)
        return BudgetShare(partitions, requests_by_partition, allowance)

    def _wait_for_rate(self, parts: int, allowance: Allowance) -> float:
        current_time = CLOCK.now()
        starts = max(current_time, self._next_start)
        self._next_start = starts + (parts / allowance.per_second if allowance.per_second else 0.0)
        return starts - current_time

    def _take_back(self, partitions: Sequence[InputPartition], share: BudgetShare) -> None:
        with self._lock:
            if share.outcomes is None:
                self.possibly_sent += share.total
                return
            needs = [outcome.failure.needs if outcome.failure else 0 for outcome in share.outcomes]
            if any(needs):
                total = sum(need or len(outcome.sent) for need, outcome in zip(needs, share.outcomes, strict=True))
                self.requests_before_refusal |= dict.fromkeys(
                    (day.date for partition in partitions for day in partition.days), total
                )
            for partition, outcome in zip(partitions, share.outcomes, strict=False):
                self.sent_at += outcome.sent
                if outcome.failure is not None and not outcome.failure.needs:
                    # A refusal by the vendor's quota is not a failure.
                    failed_count = len(outcome.sent) - (outcome.failure.said is not None)
                    for day in partition.days:
                        self.failed_requests[day.date] = self.failed_requests.get(day.date, 0) + failed_count
            self._requests_left += share.total - sum(len(outcome.sent) for outcome in share.outcomes)
