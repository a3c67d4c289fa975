"""Deals out the requests that a job may send, so that its executors together never send more."""

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
    """What one plan's partitions may send.

    :param each: how many requests each partition may send; None without a quota.
    """

    def __init__(
        self, parts: Sequence[InputPartition], each: Sequence[int] | None, allowance: Allowance | None
    ) -> None:
        self._parts, self._requests_by_partition, self._allowance = parts, each, allowance
        self.outcomes: Sequence[PollOutcome] | None = None
        self._began = time.time()

    @property
    def total(self) -> int:
        """How many requests it has."""
        return sum(self._requests_by_partition or ())

    def limits(self, partition: InputPartition) -> dict[str, Any]:
        """Return what a partition's task is told."""
        if self._requests_by_partition is None or self._allowance is None:
            return {}
        failed = max(self._allowance.failed.get(day.date, 0) for day in partition.days)
        place = self._parts.index(partition)
        # The first polls of all partitions would fall into one second.
        begins = self._began + (place / self._allowance.per_second if self._allowance.per_second else 0.0)
        return {
            "requests": self._requests_by_partition[place],
            "until": self._allowance.until,
            "failed": failed,
            "begins": begins,
        }


class RequestBudget:
    """Deals requests to partitions, and takes back what they did not send. Without an allowance, nothing is limited.

    :ivar sent: when requests were sent.
    :ivar lost: how many more may have been sent.
    :ivar failed: by day, how many went into polls that failed, those of earlier jobs of the same try included.
    :ivar counts: the requests for the vendor's own counts.
    :ivar needs: by day, how many it takes, if there were fewer left.
    :ivar ran_out: by day, how many it takes at the least, if the vendor refused more half way.
    """

    def __init__(self, allowance: Allowance | None = None, count_allowance: Allowance | None = None) -> None:
        self._allowance = allowance
        self.count_budget = CountBudget(count_allowance)
        self._left = allowance.requests if allowance else 0
        self._needed, self._most_each = 0, 1
        self._lock = threading.Lock()
        self._next = 0.0
        self.sent_at: list[float] = []
        self.possibly_sent = 0
        self.failed_requests: dict[dt.date, int] = dict(allowance.failed) if allowance else {}
        self.requests_needed: dict[dt.date, int] = {}
        self.requests_before_refusal: dict[dt.date, int] = {}

    @property
    def max_days(self) -> int:
        """How many days may be polled at once."""
        return self._allowance.width if self._allowance else sys.maxsize

    def expect(self, expected_requests: int, *, max_requests_each: int) -> None:
        """Say how many requests the job's days cost if nothing goes wrong: what is left is for polls that fail.

        :param most_each: how many of those a partition may send.
        """
        self._needed, self._most_each = expected_requests, max_requests_each

    @contextmanager
    def reserve(self, parts: Sequence[InputPartition], cost: int) -> Iterator[BudgetShare]:
        """Give partitions what they may send; take back the rest when the block ends.

        If their outcomes are not known by then, all of it counts as sent.

        :param cost: how many requests the partitions cost together, if nothing goes wrong.
        :raises QuotaError: there are not enough requests left, or they may not be sent any more.
        """
        if self._allowance is None or not parts:
            yield BudgetShare(parts, None, None)
            return
        hand = self._deal(parts, cost, self._allowance)
        try:
            yield hand
        finally:
            self._take_back(parts, hand)

    def report_fields(self) -> dict[str, Any]:
        """Return what the job's report says of its requests."""
        if self._allowance is None:
            return {}
        with self._lock:
            more = {"needs": dict(self.requests_needed)} if self.requests_needed else {}
            more |= {"ran_out": dict(self.requests_before_refusal)} if self.requests_before_refusal else {}
            return {
                "sent": tuple(self.sent_at),
                "lost": self.possibly_sent,
                "failed": dict(self.failed_requests),
            } | more

    def _deal(self, parts: Sequence[InputPartition], expected: int, allowance: Allowance) -> BudgetShare:
        cost = max(expected, len(parts))
        with self._lock:
            if cost > self._left:
                if len(parts) > 1:
                    self.requests_needed |= {parts[0].days[0].date: cost}
                # Pages that follow each other are counted, too, and nobody knows before how many there are.
                left = max(0, self._left)
                raise QuotaError(f"the job may send {left} more of its {allowance.requests} requests")
            if time.time() >= allowance.until:
                raise QuotaError("the reservation of the job's requests has lapsed")
            self._needed -= expected  # the parts of a large day take nothing from what the other days need
            spare = max(0, self._left - cost - max(0, self._needed))
            each = [cost // len(parts) + (index < cost % len(parts)) for index in range(len(parts))]
            for index in range(len(parts)):
                more = min(self._most_each - 1, spare)
                each[index] += more
                spare -= more
            self._left -= sum(each)
            pause = self._pace(len(parts), allowance)
        CLOCK.sleep(pause)
        return BudgetShare(parts, each, allowance)

    def _pace(self, parts: int, allowance: Allowance) -> float:
        """Return how long to wait until requests may be sent again."""
        now = CLOCK.now()
        starts = max(now, self._next)
        self._next = starts + (parts / allowance.per_second if allowance.per_second else 0.0)
        return starts - now

    def _take_back(self, parts: Sequence[InputPartition], hand: BudgetShare) -> None:
        with self._lock:
            if hand.outcomes is None:
                self.possibly_sent += hand.total
                return
            needs = [outcome.failure.needs if outcome.failure else 0 for outcome in hand.outcomes]
            if any(needs):
                spent = sum(need or len(outcome.sent) for need, outcome in zip(needs, hand.outcomes, strict=True))
                self.requests_before_refusal |= dict.fromkeys((day.date for part in parts for day in part.days), spent)
            for part, outcome in zip(parts, hand.outcomes, strict=False):
                self.sent_at += outcome.sent
                if outcome.failure is not None and not outcome.failure.needs:
                    # One that the vendor's quota refused is no sign of trouble.
                    in_vain = len(outcome.sent) - (outcome.failure.said is not None)
                    for day in part.days:
                        self.failed_requests[day.date] = self.failed_requests.get(day.date, 0) + in_vain
            self._left += hand.total - sum(len(outcome.sent) for outcome in hand.outcomes)
