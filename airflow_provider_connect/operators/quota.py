"""A task's part of a vendor's quota: reserved before Spark starts, and settled when its job has ended.

Executors reach no Airflow, so the task reserves, and hands the job an allowance. Airflow's Variables are the one store
that all workers see and that can be listed by prefix. They cannot compare and set; :mod:`.polling.quota.turns` does
without. What the task waits for, it waits for deferred.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.job import Allowance, JobReport
from airflow_provider_connect.operators.intent import intent_of
from airflow_provider_connect.polling.quota.limits import Quota, Want
from airflow_provider_connect.polling.quota.turns import Grant, Turns, Wait
from airflow_provider_connect.source import Source

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_connect.operators.run import Order
    from airflow_provider_connect.window import Day

_TODAYS = dt.timedelta(hours=36)
_ASKER_CHARS = 16
_SHARE_OF_A_WINDOW = 10
_MOST_IDLE_JOBS = 3


@dataclass
class Attempt:
    """One job of a task, as far as the quota goes.

    :ivar is_submitted: whether it may have sent anything.
    """

    allowance: Allowance | None = None
    is_submitted: bool = False
    report: JobReport | None = None


@dataclass
class Left:
    """What of a task is left to do, and what it cost so far: kept over a wait.

    :param requests: what the remaining days cost; None for all days.
    :param failed: by day, how many requests went into polls that failed.
    :param idle_jobs: how many jobs in a row sent nothing before their part of the quota lapsed.
    """

    requests: int | None = None
    failed: dict[str, int] = field(default_factory=dict)
    idle_jobs: int = 0


def quota_of(source: Source, order: Order) -> Quota | None:
    """Return the quota of the source's project; None if the vendor has none."""
    return source.quota(order.connections[source.conn_id])


@dataclass
class Rationed:
    """A task whose source has a quota."""

    order: Order
    turns: Turns
    want: Want
    left: Left

    @classmethod
    def of(cls, order: Order, quota: Quota, context: Context, left: Left) -> Rationed:
        """Say what the task wants."""
        source, days = order.source, order.all_days
        needed = source.requests_for(days) if left.requests is None else left.requests
        want = Want(
            asker=intent_of(context["dag_run"], context["ti"]).token[:_ASKER_CHARS],
            requests=needed,
            least=max(source.requests_for(days[:1]), min(needed, quota.requests // _SHARE_OF_A_WINDOW)),
            spare=source.retry_budget_requests - 1,
            width=min(source.parallel_days, len(days), max(1, needed)),
            rank=rank_of(str(context["dag_run"].run_type), order.days, dt.datetime.now(dt.UTC)),
        )
        return cls(order, Turns(VariableStore(), quota), want, left)

    def move(self, job: Callable[[Attempt], JobReport]) -> JobReport:
        """Run jobs until one of them ends otherwise than for want of requests.

        :param job: runs one, and notes in the attempt how far it came.
        :raises TaskDeferred: there is no room now.
        """
        while True:
            got = self.turns.reserve(self.want)
            if isinstance(got, Wait):
                self._defer(got)
            self.order.log.info("Holds %d requests of %s", got.requests, self.turns.quota.name)
            attempt = Attempt(self._allowance(got))
            try:
                return job(attempt)
            except QuotaError as error:
                put_off = error
            finally:
                self._settle(got, attempt)
            self._go_on_after(put_off, attempt.report)

    def _allowance(self, grant: Grant) -> Allowance:
        failed = {dt.date.fromisoformat(day): count for day, count in self.left.failed.items()}
        return Allowance(
            requests=grant.requests,
            until=grant.until,
            width=grant.width,
            per_second=self.turns.quota.per_second,
            failed=failed,
        )

    def _settle(self, grant: Grant, attempt: Attempt) -> None:
        """Give back what was not sent. A job without a report keeps all of it: nobody knows what it sent."""
        try:
            if not attempt.is_submitted:
                self.turns.settle(grant, [])
            elif attempt.report is not None:
                self.turns.settle(grant, [*attempt.report.sent, *[time.time()] * attempt.report.lost])
        except Exception as error:  # noqa: BLE001  # this must not hide how the job ended
            self.order.log.warning("The requests that were not sent could not be given back: %s", error)

    def _go_on_after(self, error: QuotaError, report: JobReport | None) -> None:
        """Prepare another job for the days that are left.

        :raises TaskDeferred: the vendor refused a request, so it is no use to go on at once.
        :raises QuotaError: jobs take too long to start.
        """
        is_idle = error.said is None and (report is None or not report.sent)
        idle_jobs = self.left.idle_jobs + 1 if is_idle else 0
        if idle_jobs == _MOST_IDLE_JOBS:
            raise QuotaError(
                f"{idle_jobs} jobs in a row sent none of their requests; the last one: {error}. Check how long Spark "
                f"takes to start: a reservation is good for {self.turns.quota.valid_seconds / 60:.0f} minutes"
            )
        if report is not None:
            settled = {day.day for day in report.days if day.status not in ("failed", "not_started")}
            rest = [day for day in self.order.all_days if day.date not in settled]
            needed = self.order.source.requests_for(rest)
            self.want = replace(self.want, requests=needed, least=min(needed, self.want.least))
            failed = {str(day): count for day, count in report.failed.items()}
            self.left = Left(needed, failed, idle_jobs)
        if error.said is not None:
            self.turns.tell(*error.said)
            self._defer(self.turns.wait(self.want), error)
        self.order.log.info("Goes on with %d more requests: %s", self.want.requests, error)

    def _defer(self, wait: Wait, error: QuotaError | None = None) -> NoReturn:
        from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415

        from airflow_provider_connect.operators.quota_trigger import QuotaTrigger  # noqa: PLC0415

        until = dt.datetime.fromtimestamp(wait.until, dt.UTC)
        why = f"{error}; {wait.why}" if error else wait.why
        self.order.log.info("Waits for requests, looks again at %s: %s", f"{until:%H:%M:%S} UTC", why)
        trigger = QuotaTrigger(quota=asdict(self.turns.quota), want=asdict(self.want), until=wait.until)
        raise TaskDeferred(trigger=trigger, method_name="go_on", kwargs={"left": asdict(self.left)})


def rank_of(run_type: str, days: Sequence[Day], now: dt.datetime) -> int:
    """Return 0 for a run of today's day, and 1 for a backfill or a catchup."""
    return int("backfill" in run_type.lower() or days[-1].end < now - _TODAYS)
