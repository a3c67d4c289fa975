"""A task's share of a vendor's quota."""

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

_LIVE_AGE = dt.timedelta(hours=36)
_ASKER_CHARS = 16
_WINDOW_SHARE = 10
_MAX_IDLE_JOBS = 3


@dataclass
class QuotaJob:
    """One Spark job of a task, with its share of the quota.

    :ivar is_submitted: True if requests may have been sent.
    """

    allowance: Allowance | None = None
    count_allowance: Allowance | None = None
    is_submitted: bool = False
    report: JobReport | None = None
    settled_dates: frozenset[dt.date] = frozenset()

    def narrow(self, spec: RunSpec) -> RunSpec:
        """Return the spec with the job's allowance, without settled lookback days."""
        return replace(
            spec,
            allowance=self.allowance,
            count_allowance=self.count_allowance,
            lookback=tuple(day for day in spec.lookback if day.date not in self.settled_dates),
        )


@dataclass
class TaskProgress:
    """Remaining work of a task after its earlier jobs, which Airflow stores during a wait.

    :param requests: requests for the remaining days. None before the first job.
    :param failed: requests spent on failed polls, by day.
    :param idle_jobs: number of consecutive jobs whose reservation lapsed before they sent a request.
    :param least: fewest requests with which a day can start.
    :param one_by_one: days are polled one after the other.
    :param alone: days that cannot share a request.
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
        """Reports of the settled days, by date."""
        return {day.day: day for day in map(DayReport.model_validate, self.done)}

    def merge_done(self, report: JobReport) -> list[dict[str, Any]]:
        """Return ``done`` with the days that this job settled."""
        return [
            day.model_dump(mode="json", exclude_defaults=True) for day in self._merge_days(report) if _is_settled(day)
        ]

    def complete_report(self, report: JobReport) -> JobReport:
        """Add the days that earlier jobs settled to the last job's report."""
        return report.model_copy(update={"days": self._merge_days(report)}) if self.done else report

    def _merge_days(self, report: JobReport) -> tuple[DayReport, ...]:
        settled_before, uninformative = self.settled_reports, ("already_published", "not_started")
        days_of_job = {
            day.day: day for day in report.days if day.day not in settled_before or day.status not in uninformative
        }
        return tuple(sorted((settled_before | days_of_job).values(), key=lambda day: (day.lookback, day.day)))


def _is_settled(day: DayReport) -> bool:
    return day.status not in ("failed", "not_started")


@dataclass
class QuotaDemand:
    """A quota's queue of turns, and the requests that the task wants."""

    turns: Turns
    want: QuotaClaim


@dataclass
class QuotaRunner:
    """Runner of a task's Spark jobs whose source has a quota."""

    spec: RunSpec
    turns: Turns
    want: QuotaClaim
    progress: TaskProgress
    count_demand: QuotaDemand | None = None

    @classmethod
    def for_task(cls, spec: RunSpec, quota: Quota, context: Context, progress: TaskProgress) -> QuotaRunner:
        """Compute the requests that the task's days need, and build the runner."""
        source, days = spec.source, spec.all_days
        requests = requests_for(source, days) if progress.requests is None else progress.requests
        want = QuotaClaim(
            asker=intent_of(context["dag_run"], context["ti"]).token[:_ASKER_CHARS],
            requests=requests,
            least=max(requests_for(source, days[:1]), min(requests, quota.requests // _WINDOW_SHARE), progress.least),
            spare=source.retry_budget_requests - 1,
            width=_parallel_requests(source, days, progress),
            rank=rank_of(str(context["dag_run"].run_type), spec.days, dt.datetime.now(dt.UTC)),
        )
        return cls(spec, Turns(VariableStore(), quota), want, progress, _count_demand(spec, want, progress))

    def move(self, run_job: Callable[[QuotaJob], JobReport]) -> JobReport:
        """Run jobs until one does not run out of requests. Returns the report of all days.

        :param run_job: sets ``is_submitted`` and ``report``.
        :raises TaskDeferred: the quota has no room now.
        """
        while True:
            grant = self.turns.reserve(self.want)
            if isinstance(grant, QuotaWait):
                self._defer(grant)
            self.spec.log.info("Reserved %d requests of %s", grant.requests, self.turns.quota.name)
            self.spec.metrics.send_quota_left(grant.requests_left)
            quota_job = QuotaJob(self._allowance(grant), settled_dates=frozenset(self.progress.settled_reports))
            count_grant: Grant | None = None
            try:
                count_grant = self._reserve_counts(quota_job)
                return self.progress.complete_report(run_job(quota_job))
            except QuotaError as error:
                quota_error = error
            finally:
                report = quota_job.report
                self._settle(
                    self.turns, grant, quota_job, [*report.sent, *[time.time()] * report.lost] if report else []
                )
                if count_grant is not None and self.count_demand is not None:
                    self._settle(self.count_demand.turns, count_grant, quota_job, report.counted if report else [])
            self._prepare_next_job(quota_error, quota_job.report)

    def _reserve_counts(self, quota_job: QuotaJob) -> Grant | None:
        if self.count_demand is None:
            return None
        grant = self.count_demand.turns.reserve(self.count_demand.want)
        if isinstance(grant, QuotaWait):
            self._defer(grant, demand=self.count_demand)
        self.spec.log.info("Reserved %d requests of %s", grant.requests, self.count_demand.turns.quota.name)
        per_second = self.count_demand.turns.quota.per_second
        quota_job.count_allowance = Allowance(requests=grant.requests, until=grant.until, per_second=per_second)
        return grant

    def _allowance(self, grant: Grant) -> Allowance:
        failed = {dt.date.fromisoformat(day): count for day, count in self.progress.failed.items()}
        return Allowance(
            requests=grant.requests,
            until=grant.until,
            width=grant.width,
            per_second=self.turns.quota.per_second,
            failed=failed,
        )

    def _settle(self, turns: Turns, grant: Grant, quota_job: QuotaJob, sent_times: Sequence[float]) -> None:
        try:
            if not quota_job.is_submitted:
                turns.settle(grant, [])
            elif quota_job.report is not None:
                turns.settle(grant, sent_times)
        except Exception as error:  # noqa: BLE001  # must not hide the outcome of the job
            self.spec.log.warning("Returning unsent requests failed: %s", error)

    def _prepare_next_job(self, error: QuotaError, report: JobReport | None) -> None:
        has_sent = report is not None and (report.sent or report.counted)
        is_idle = error.said is None and not has_sent
        idle_jobs = self.progress.idle_jobs + 1 if is_idle else 0
        if idle_jobs == _MAX_IDLE_JOBS:
            raise QuotaError(
                f"{idle_jobs} jobs in a row sent no request. The last error: {error}. Check how long Spark takes to "
                f"start: a reservation lasts {self.turns.quota.valid_seconds / 60:.0f} minutes"
            )
        if report is not None:
            done = self.progress.merge_done(report)
            open_days = _open_days(self.spec.all_days, replace(self.progress, done=done))
            needs = [report.needs[day.date] for day in open_days if day.date in report.needs]
            _require_room_in_hour(self.turns.quota, max(needs, default=0), "a day takes {} requests")
            spent_requests = [report.ran_out[day.date] for day in open_days if day.date in report.ran_out]
            needs += self._requests_after_running_out(spent_requests, some_done=len(done) > len(self.progress.done))
            one_by_one = self.progress.one_by_one or bool(spent_requests)
            dates = {day.date: str(day.date) for day in open_days}
            lone_days = [text for date, text in dates.items() if text in self.progress.alone or date in report.alone]
            lone_dates = {date for date, text in dates.items() if text in lone_days}
            requests = requests_for(self.spec.source, open_days, lone_dates) + sum(needs) - len(needs)
            least = max([min(requests, self.want.least), *needs])
            failed = {str(day): count for day, count in report.failed.items()}
            to_count = sorted({*self.progress.to_count, *map(str, report.to_count)} & {*dates.values()})
            self.progress = TaskProgress(
                requests, failed, idle_jobs, max(needs, default=0), one_by_one, to_count, lone_days, done
            )
            width = _parallel_requests(self.spec.source, self.spec.all_days, self.progress)
            self.want = replace(self.want, requests=requests, least=least, width=width)
            self.count_demand = _count_demand(self.spec, self.want, self.progress)
            if self.count_demand is not None and report.count_said is not None:
                self.count_demand.turns.record_vendor_usage(*report.count_said)
                self._defer(self.count_demand.turns.join_queue(self.count_demand.want), error, self.count_demand)
        if error.said is not None:
            self.turns.record_vendor_usage(*error.said)
            self._defer(self.turns.join_queue(self.want), error)
        self.spec.log.info("Continuing with %d more requests: %s", self.want.requests, error)

    def _requests_after_running_out(self, spent_requests: Sequence[int], *, some_done: bool) -> list[int]:
        """Return how many requests to reserve for each day that the vendor refused half way.

        Its spent requests are doubled, up to an hour's requests.

        :raises QuotaError: an hour's requests were not enough.
        """
        hour_requests = self.turns.quota.requests
        if spent_requests and self.progress.one_by_one and self.progress.least >= hour_requests and not some_done:
            raise QuotaError(
                f"a day ran out of requests after {max(spent_requests):,}, though all of {self.turns.quota.describe()} "
                "were reserved for it. The service allows fewer than declared, a client outside Airflow uses it, or "
                "the day has more pages. Correct the declared limits, or request larger pages"
            )
        return [min(2 * count, hour_requests) for count in spent_requests]

    def _defer(self, wait: QuotaWait, error: QuotaError | None = None, demand: QuotaDemand | None = None) -> NoReturn:
        from airflow.sdk.exceptions import TaskDeferred  # noqa: PLC0415

        from airflow_provider_connect.operators.quota_trigger import QuotaTrigger  # noqa: PLC0415

        until = dt.datetime.fromtimestamp(wait.until, dt.UTC)
        reason = f"{error}; {wait.reason}" if error else wait.reason
        self.spec.log.info("Waiting for requests, next check at %s: %s", f"{until:%H:%M:%S} UTC", reason)
        self.spec.metrics.send_quota_wait()
        waiting_demand = demand or QuotaDemand(self.turns, self.want)
        trigger = QuotaTrigger(
            quota=asdict(waiting_demand.turns.quota), want=asdict(waiting_demand.want), until=wait.until
        )
        raise TaskDeferred(trigger=trigger, method_name="go_on", kwargs={"left": asdict(self.progress)})


def _open_days(days: Sequence[Day], progress: TaskProgress) -> list[Day]:
    settled = progress.settled_reports
    return [day for day in days if day.date not in settled]


def _parallel_requests(source: Source, days: Sequence[Day], progress: TaskProgress) -> int:
    if progress.one_by_one:
        return 1
    source_quota = source.capability(HasQuota)
    parallel_requests = 1 if source_quota is None else source_quota.requests_at_once(days)
    return max(parallel_requests, (source.capability(Counts) or Counts()).parts_at_once if progress.to_count else 1)


def _count_demand(spec: RunSpec, want: QuotaClaim, progress: TaskProgress) -> QuotaDemand | None:
    source, days = spec.source, _open_days(spec.all_days, progress)
    counting = source.capability(Counts)
    if counting is None:
        return None
    if spec.rules.reconcile == "off" and not counting.counts_first:
        days = [day for day in days if str(day.date) in progress.to_count]
    quota = counting.count_quota(spec.connections[source.conn_id]) if days else None
    if quota is None:
        return None
    _require_room_in_hour(
        quota, counting.requests_to_count(days[:1]), "the vendor's own count of a day takes {} requests"
    )
    return QuotaDemand(Turns(VariableStore(), quota), _count_want(counting, days, want))


def _require_room_in_hour(quota: Quota, requests: int, cost_text: str) -> None:
    if requests > quota.requests:
        raise ConfigError(
            f"{cost_text.format(requests)}, and {quota.name} allows {quota.describe()}. Request less (fewer names in "
            "event, a higher split_rows), or correct the connection's limits"
        )


def _count_want(counting: Counts, days: Sequence[Day], want: QuotaClaim) -> QuotaClaim:
    requests, least = counting.requests_to_count(days), counting.requests_to_count(days[:1])
    return QuotaClaim(want.asker, requests, least=least, spare=least, rank=want.rank)


def rank_of(run_type: str, days: Sequence[Day], current_time: dt.datetime) -> int:
    """Return a run's rank in the queue for requests: 0 (first) for recent days, 1 for a backfill or catchup."""
    return int("backfill" in run_type.lower() or days[-1].end < current_time - _LIVE_AGE)
