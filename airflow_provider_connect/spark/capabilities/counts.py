"""Requests the vendor's own row counts of days, within the job's allowance for counts."""

from __future__ import annotations

import threading

from airflow_provider_connect.capabilities import source as capabilities
from airflow_provider_connect.capabilities.poller import CountsRows
from airflow_provider_connect.completeness import Finding, Reconcile, Rules, count_finding
from airflow_provider_connect.errors import ConfigError, QuotaError, RetriableError
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.source import Poller, Source
from airflow_provider_connect.spark.count_budget import CountBudget
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.stage.counts import VendorCount
from airflow_provider_connect.window import Day

_TRIES = 3
_PAUSE_SECONDS = 2.0


class DayCounter:
    """Compares each day's rows with the vendor's row count. Thread-safe: sends one request at a time."""

    def __init__(self, source: Source, poller: Poller, rules: Rules, budget: CountBudget | None = None) -> None:
        self._counting = source.capability(capabilities.Counts) or capabilities.Counts()
        self._poller, self._rules = poller, rules
        self._counts_before_plan = self._counting.counts_first
        self._budget = budget or CountBudget()
        self._lock = threading.Lock()
        self._planned_counts: dict[Day, VendorCount] = {}
        self._days_to_match: set[Day] = set()
        self._config_error: ConfigError | None = None

    @property
    def is_always_needed(self) -> bool:
        """True if every plan of the source needs its day's count."""
        return self._counts_before_plan

    def _mode(self, day: Day) -> Reconcile:
        is_needed = self._counts_before_plan or day in self._days_to_match
        return "fail" if self._rules.reconcile == "off" and is_needed else self._rules.reconcile

    def planned_count(self, day: Day) -> VendorCount | None:
        """Return a day's count from before its plan, or None."""
        return self._planned_counts.get(day)

    def require_match(self, day: Day) -> None:
        """Compare this day with its count even with ``reconcile="off"``, because the count decided the partitions."""
        self._days_to_match.add(day)

    def count_before_plan(self, day: Day, *, is_split: bool = False) -> None:
        """Request a day's count if its plan needs one.

        :param is_split: the plan is split, so it needs a count.
        :raises ConnectError: the day cannot be counted. A :class:`QuotaError` if no requests are left.
        """
        if self._counts_before_plan or is_split:
            self._planned_counts[day] = self._count_with_retries(day)

    def compare(self, day: Day, rows: int) -> Finding | None:
        """Compare a day's rows with the vendor's count. None if they agree or are not compared.

        :raises ConnectError: as :meth:`count_before_plan`. With ``warn`` only a :class:`QuotaError`.
        """
        mode = self._mode(day)
        if mode == "off":
            return None
        try:
            count = self._planned_counts.pop(day, None) or self._count_with_retries(day)
        except QuotaError:
            raise  # the task waits for room
        except (ConfigError, RetriableError) as error:
            if mode == "fail":
                raise
            text = f"day {day}: the source's own count is not available, so nothing was compared with it: {error}"
            return Finding(f"{text}. The day is published, because reconcile='warn'", is_fatal=False)
        if count.is_most and self._rules.reconcile == "off":
            return None  # it was counted for the plan
        return count_finding(day.date, rows, count, self._rules.reconcile_percent, mode)

    def _count_with_retries(self, day: Day) -> VendorCount:
        with self._lock:
            if self._config_error is not None:
                raise self._config_error  # a configuration error concerns all days
            tries = 0
            while True:
                tries += 1
                try:
                    return self._count_once(day)
                except QuotaError:
                    raise
                except ConfigError as error:
                    self._config_error = error
                    raise
                except RetriableError as error:
                    if tries == _TRIES or error.retry_after_seconds:
                        raise
                    pause = _PAUSE_SECONDS * tries
                    log_line(f"day {day}: requesting the source's count again in {pause:.0f} s: {error}")
                    CLOCK.sleep(pause)

    def _count_once(self, day: Day) -> VendorCount:
        counter = require_capability(self._poller, CountsRows, "days are counted")
        self._budget.require(self._counting.requests_to_count([day]))
        tally = self._budget.tally()
        try:
            return counter.count(day, tally)
        except QuotaError as error:
            if error.said is None:
                raise
            # The quota of counts has its own hour, apart from the quota of polls.
            self._budget.quota_refusal = error.said
            raise QuotaError(str(error)) from None
        except ConfigError as error:
            raise ConfigError(f"the vendor's own count: {error}") from None
        finally:
            self._budget.sent_at += tally.sent
