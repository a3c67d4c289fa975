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
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_connect.capabilities.source import Counts, HasQuota
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.hooks.variables import VariableStore
from airflow_provider_connect.job import Allowance, DayReport, JobReport
from airflow_provider_connect.operators.intent import intent_of
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim
from airflow_provider_connect.polling.quota.turns import Grant, QuotaWait, Turns
from airflow_provider_connect.registry import requests_for
from airflow_provider_connect.source import Source

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_connect.operators.run import RunSpec
    from airflow_provider_connect.window import Day

_TODAYS = dt.timedelta(hours=36)
_ASKER_CHARS = 16
_SHARE_OF_A_WINDOW = 10
_MOST_IDLE_JOBS = 3


@dataclass
class QuotaJob:
    """One job of a task, as far as the quota goes.

    :ivar is_submitted: whether it may have sent anything.
    :ivar done: days that earlier jobs have settled. Of those, the lookback's are not asked for again.
    """

    allowance: Allowance | None = None
    count_allowance: Allowance | None = None
    is_submitted: bool = False
    report: JobReport | None = None
    settled_dates: frozenset[dt.date] = frozenset()

    def narrow(self, spec: RunSpec) -> RunSpec:
        """Return what is left of an order, with what the job may send. Of days of the window the ledger knows more."""
        return replace(
            spec,
            allowance=self.allowance,
            count_allowance=self.count_allowance,
            lookback=tuple(day for day in spec.lookback if day.date not in self.settled_dates),
        )


@dataclass
class TaskProgress:
    """What of a task is left to do, and what it cost so far: kept over a wait.

    :param requests: what the remaining days cost; None for all days.
    :param failed: by day, how many requests went into polls that failed.
    :param idle_jobs: how many jobs in a row sent nothing before their part of the quota lapsed.
    :param least: with fewer requests no day can begin, as jobs have found out.
    :param one_by_one: whether days are polled one after the other: one of them ran out of requests half way.
    :param to_count: days that have to be counted before they are planned, as jobs have found out.
    :param alone: days that are asked for alone, though they could share a request, as jobs have found out.
    :param done: what became of the days that earlier jobs have settled: their reports, as plain JSON.
    """

    requests: int | None = None
    failed: dict[str, int] = field(default_factory=dict)
    idle_jobs: int = 0
    least: int = 0
    one_by_one: bool = False
    to_count: list[str] = field(default_factory=list)
    alone: list[str] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)

    @property
    def settled_reports(self) -> dict[dt.date, DayReport]:
        """The reports of the days that are done."""
        return {day.day: day for day in map(DayReport.model_validate, self.done)}

    def merge_done(self, report: JobReport) -> list[dict[str, Any]]:
        """Return ``done`` with the days that a job has settled."""
        return [day.model_dump(mode="json", exclude_defaults=True) for day in self._all(report) if _is_settled(day)]

    def complete_report(self, report: JobReport) -> JobReport:
        """Return the report of the last job with the days that were done before it."""
        return report.model_copy(update={"days": self._all(report)}) if self.done else report

    def _all(self, report: JobReport) -> tuple[DayReport, ...]:
        """Return what became of all days. Of those done before, the later job knows at most that they are published."""
        before, knows_less = self.settled_reports, ("already_published", "not_started")
        told = {day.day: day for day in report.days if day.day not in before or day.status not in knows_less}
        return tuple(sorted((before | told).values(), key=lambda day: (day.lookback, day.day)))


def _is_settled(day: DayReport) -> bool:
    return day.status not in ("failed", "not_started")


@dataclass
class QuotaDemand:
    """A quota, and what a task wants of it."""

    turns: Turns
    want: QuotaClaim


@dataclass
class QuotaRunner:
    """A task whose source has a quota.

    :param counts: of the vendor's own counts, if they have a quota of their own. It is reserved second. Who finds no
        room there gives back the first, and waits with empty hands: two tasks never wait for what the other one holds.
    """

    spec: RunSpec
    turns: Turns
    want: QuotaClaim
    progress: TaskProgress
    count_demand: QuotaDemand | None = None

    @classmethod
    def for_task(cls, spec: RunSpec, quota: Quota, context: Context, progress: TaskProgress) -> QuotaRunner:
        """Say what the task wants."""
        source, days = spec.source, spec.all_days
        needed = requests_for(source, days) if progress.requests is None else progress.requests
        want = QuotaClaim(
            asker=intent_of(context["dag_run"], context["ti"]).token[:_ASKER_CHARS],
            requests=needed,
            least=max(
                requests_for(source, days[:1]), min(needed, quota.requests // _SHARE_OF_A_WINDOW), progress.least
            ),
            spare=source.retry_budget_requests - 1,
            width=_width(source, days, progress),
            rank=rank_of(str(context["dag_run"].run_type), spec.days, dt.datetime.now(dt.UTC)),
        )
        return cls(spec, Turns(VariableStore(), quota), want, progress, _counts_of(spec, want, progress))

    def move(self, run_job: Callable[[QuotaJob], JobReport]) -> JobReport:
        """Run jobs until one of them ends otherwise than for want of requests.

        :param job: runs one, and notes in the attempt how far it came.
        :raises TaskDeferred: there is no room now.
        """
        while True:
            got = self.turns.reserve(self.want)
            if isinstance(got, QuotaWait):
                self._defer(got)
            self.spec.log.info("Holds %d requests of %s", got.requests, self.turns.quota.name)
            self.spec.metrics.send_quota_left(got.requests_left)
            attempt = QuotaJob(self._allowance(got), settled_dates=frozenset(self.progress.settled_reports))
            to_count: Grant | None = None
            try:
                to_count = self._reserve_counts(attempt)
                return self.progress.complete_report(run_job(attempt))
            except QuotaError as error:
                put_off = error
            finally:
                report = attempt.report
                self._settle(self.turns, got, attempt, [*report.sent, *[time.time()] * report.lost] if report else [])
                if to_count is not None and self.count_demand is not None:
                    self._settle(self.count_demand.turns, to_count, attempt, report.counted if report else [])
            self._go_on_after(put_off, attempt.report)

    def _reserve_counts(self, attempt: QuotaJob) -> Grant | None:
        """Reserve what the vendor's counts take, and note it in the attempt.

        :raises TaskDeferred: there is no room now.
        """
        if self.count_demand is None:
            return None
        got = self.count_demand.turns.reserve(self.count_demand.want)
        if isinstance(got, QuotaWait):
            self._defer(got, ration=self.count_demand)
        self.spec.log.info("Holds %d requests of %s", got.requests, self.count_demand.turns.quota.name)
        per_second = self.count_demand.turns.quota.per_second
        attempt.count_allowance = Allowance(requests=got.requests, until=got.until, per_second=per_second)
        return got

    def _allowance(self, grant: Grant) -> Allowance:
        failed = {dt.date.fromisoformat(day): count for day, count in self.progress.failed.items()}
        return Allowance(
            requests=grant.requests,
            until=grant.until,
            width=grant.width,
            per_second=self.turns.quota.per_second,
            failed=failed,
        )

    def _settle(self, turns: Turns, grant: Grant, attempt: QuotaJob, sent: Sequence[float]) -> None:
        """Give back what was not sent. A job without a report keeps all of it: nobody knows what it sent."""
        try:
            if not attempt.is_submitted:
                turns.settle(grant, [])
            elif attempt.report is not None:
                turns.settle(grant, sent)
        except Exception as error:  # noqa: BLE001  # this must not hide how the job ended
            self.spec.log.warning("The requests that were not sent could not be given back: %s", error)

    def _go_on_after(self, error: QuotaError, report: JobReport | None) -> None:
        """Prepare another job for the days that are left.

        :raises TaskDeferred: the vendor refused a request, so it is no use to go on at once.
        :raises QuotaError: jobs take too long to start.
        """
        did_something = report is not None and (report.sent or report.counted)
        is_idle = error.said is None and not did_something
        idle_jobs = self.progress.idle_jobs + 1 if is_idle else 0
        if idle_jobs == _MOST_IDLE_JOBS:
            raise QuotaError(
                f"{idle_jobs} jobs in a row sent none of their requests; the last one: {error}. Check how long Spark "
                f"takes to start: a reservation is good for {self.turns.quota.valid_seconds / 60:.0f} minutes"
            )
        if report is not None:
            done = self.progress.merge_done(report)
            rest = _rest(self.spec.all_days, replace(self.progress, done=done))
            needs = [report.needs[day.date] for day in rest if day.date in report.needs]
            _require_hour(self.turns.quota, max(needs, default=0), "a day takes {} requests")
            ran_out = [report.ran_out[day.date] for day in rest if day.date in report.ran_out]
            needs += self._after_running_out(ran_out, some_done=len(done) > len(self.progress.done))
            one_by_one = self.progress.one_by_one or bool(ran_out)
            dates = {day.date: str(day.date) for day in rest}
            alone = [text for date, text in dates.items() if text in self.progress.alone or date in report.alone]
            singly = {date for date, text in dates.items() if text in alone}
            needed = requests_for(self.spec.source, rest, singly) + sum(needs) - len(needs)
            least = max([min(needed, self.want.least), *needs])
            failed = {str(day): count for day, count in report.failed.items()}
            to_count = sorted({*self.progress.to_count, *map(str, report.to_count)} & {*dates.values()})
            self.progress = TaskProgress(
                needed, failed, idle_jobs, max(needs, default=0), one_by_one, to_count, alone, done
            )
            width = _width(self.spec.source, self.spec.all_days, self.progress)
            self.want = replace(self.want, requests=needed, least=least, width=width)
            self.count_demand = _counts_of(self.spec, self.want, self.progress)
            if self.count_demand is not None and report.count_said is not None:
                self.count_demand.turns.record_vendor_usage(*report.count_said)
                self._defer(self.count_demand.turns.join_queue(self.count_demand.want), error, self.count_demand)
        if error.said is not None:
            self.turns.record_vendor_usage(*error.said)
            self._defer(self.turns.join_queue(self.want), error)
        self.spec.log.info("Goes on with %d more requests: %s", self.want.requests, error)

    def _after_running_out(self, spent: Sequence[int], *, some_done: bool) -> list[int]:
        """Return what to reserve for days that the vendor refused half way: they begin again at their first page.

        Twice as much, as nobody knows how many pages there are; at the most a whole hour.

        :param spent: how many requests each took before that.
        :param some_done: whether the job has settled other days before, so that these had less than it.
        :raises QuotaError: a whole hour was not enough, and will not be the next time.
        """
        most = self.turns.quota.requests
        if spent and self.progress.one_by_one and self.progress.least >= most and not some_done:
            raise QuotaError(
                f"a day ran out of requests after {max(spent):,}, though all of {self.turns.quota.describe()} were "
                "reserved for it: the service allows fewer than are declared, somebody outside this Airflow asks it, "
                "too, or the day has more pages than that. Correct the declared limits, or ask for larger pages"
            )
        return [min(2 * each, most) for each in spent]

    def _defer(self, wait: QuotaWait, error: QuotaError | None = None, ration: QuotaDemand | None = None) -> NoReturn:
        from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415

        from airflow_provider_connect.operators.quota_trigger import QuotaTrigger  # noqa: PLC0415

        until = dt.datetime.fromtimestamp(wait.until, dt.UTC)
        why = f"{error}; {wait.reason}" if error else wait.reason
        self.spec.log.info("Waits for requests, looks again at %s: %s", f"{until:%H:%M:%S} UTC", why)
        self.spec.metrics.send_quota_wait()
        which = ration or QuotaDemand(self.turns, self.want)
        trigger = QuotaTrigger(quota=asdict(which.turns.quota), want=asdict(which.want), until=wait.until)
        raise TaskDeferred(trigger=trigger, method_name="go_on", kwargs={"left": asdict(self.progress)})


def _rest(days: Sequence[Day], left: TaskProgress) -> list[Day]:
    """Return the days that are not done."""
    settled = left.settled_reports
    return [day for day in days if day.date not in settled]


def _width(source: Source, days: Sequence[Day], left: TaskProgress) -> int:
    """Return how many requests may be under way at once: a day that is split has several."""
    if left.one_by_one:
        return 1
    limited = source.capability(HasQuota)
    at_once = 1 if limited is None else limited.requests_at_once(days)
    return max(at_once, (source.capability(Counts) or Counts()).parts_at_once if left.to_count else 1)


def _counts_of(order: RunSpec, want: QuotaClaim, left: TaskProgress) -> QuotaDemand | None:
    """Return what the vendor's own counts take; None if nothing is counted, or counts have no quota of their own."""
    source, days = order.source, _rest(order.all_days, left)
    counting = source.capability(Counts)
    if counting is None:
        return None
    if order.rules.reconcile == "off" and not counting.counts_first:
        days = [day for day in days if str(day.date) in left.to_count]
    quota = counting.count_quota(order.connections[source.conn_id]) if days else None
    if quota is None:
        return None
    _require_hour(quota, counting.requests_to_count(days[:1]), "the vendor's own count of a day takes {} requests")
    return QuotaDemand(Turns(VariableStore(), quota), _to_count(counting, days, want))


def _require_hour(quota: Quota, requests: int, what: str) -> None:
    """Refuse what no hour has room for: the task would wait for ever.

    :raises ConfigError: with what to do.
    """
    if requests > quota.requests:
        raise ConfigError(
            f"{what.format(requests)}, and {quota.name} allows {quota.describe()}: ask for less (fewer names in event, "
            "a higher split_rows), or set the connection's limits right"
        )


def _to_count(counting: Counts, days: Sequence[Day], want: QuotaClaim) -> QuotaClaim:
    """Return what it takes to count days, for the same task: they are counted one after the other."""
    needed, least = counting.requests_to_count(days), counting.requests_to_count(days[:1])
    return QuotaClaim(want.asker, needed, least=least, spare=least, rank=want.rank)


def rank_of(run_type: str, days: Sequence[Day], current_time: dt.datetime) -> int:
    """Return 0 for a run of today's day, and 1 for a backfill or a catchup."""
    return int("backfill" in run_type.lower() or days[-1].end < current_time - _TODAYS)
