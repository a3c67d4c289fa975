"""The vendor's own counts of days: asked by the driver, within the requests that the job may send for them."""

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
    """Counts the days of a job, and compares them. Several threads may ask; the vendor is asked by one at a time."""

    def __init__(self, source: Source, poller: Poller, rules: Rules, budget: CountBudget | None = None) -> None:
        self._counting = source.capability(capabilities.Counts) or capabilities.Counts()
        self._poller, self._rules = poller, rules
        self._is_first = self._counting.counts_first
        self._budget = budget or CountBudget()
        self._lock = threading.Lock()
        self._planned: dict[Day, VendorCount] = {}
        self._held: set[Day] = set()
        self._refused: ConfigError | None = None

    @property
    def is_always_needed(self) -> bool:
        """Whether the plan of each day needs its count."""
        return self._is_first

    def _mode(self, day: Day) -> Reconcile:
        is_needed = self._is_first or day in self._held
        return "fail" if self._rules.reconcile == "off" and is_needed else self._rules.reconcile

    def planned_count(self, day: Day) -> VendorCount | None:
        """Return the count of a day, if it was counted before its plan."""
        return self._planned.get(day)

    def require_match(self, day: Day) -> None:
        """Compare a day in any case: it was asked for in several partitions, which its count decided."""
        self._held.add(day)

    def count_before_plan(self, day: Day, *, is_split: bool = False) -> None:
        """Count a day whose plan needs it.

        :param is_split: whether it does, whatever the source says of all days.
        :raises ConnectError: it cannot be counted; a :class:`QuotaError` if there are no requests left for that.
        """
        if self._is_first or is_split:
            self._planned[day] = self._ask(day)

    def compare(self, day: Day, rows: int) -> Finding | None:
        """Compare what is about to be published with the vendor's count; None if they agree, or are not compared.

        :raises ConnectError: as :meth:`count_before_plan`; with ``warn`` only a :class:`QuotaError`.
        """
        mode = self._mode(day)
        if mode == "off":
            return None
        try:
            count = self._planned.pop(day, None) or self._ask(day)
        except QuotaError:
            raise  # the task waits for room
        except (ConfigError, RetriableError) as error:
            if mode == "fail":
                raise
            text = f"day {day}: the source's own count could not be had, and nothing was compared with it: {error}"
            return Finding(f"{text}; it is published all the same, as reconcile='warn' says", is_fatal=False)
        if count.is_most and self._rules.reconcile == "off":
            return None  # it was counted for the plan
        return count_finding(day.date, rows, count, self._rules.reconcile_percent, mode)

    def _ask(self, day: Day) -> VendorCount:
        with self._lock:
            if self._refused is not None:
                raise self._refused  # what one day was told holds for all
            tries = 0
            while True:
                tries += 1
                try:
                    return self._ask_once(day)
                except QuotaError:
                    raise
                except ConfigError as error:
                    self._refused = error
                    raise
                except RetriableError as error:
                    if tries == _TRIES or error.retry_after_seconds:
                        raise
                    pause = _PAUSE_SECONDS * tries
                    log_line(f"day {day}: the source is asked for its count again in {pause:.0f} s: {error}")
                    CLOCK.sleep(pause)

    def _ask_once(self, day: Day) -> VendorCount:
        counter = require_capability(self._poller, CountsRows, "days are counted")
        self._budget.require(self._counting.requests_to_count([day]))
        tally = self._budget.tally()
        try:
            return counter.count(day, tally)
        except QuotaError as error:
            if error.said is None:
                raise
            # It speaks of another hour than the one that polls are counted in.
            self._budget.quota_refusal = error.said
            raise QuotaError(str(error)) from None
        except ConfigError as error:
            raise ConfigError(f"the vendor's own count: {error}") from None
        finally:
            self._budget.sent_at += tally.sent
