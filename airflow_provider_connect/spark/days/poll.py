"""The step from partitions to their outcomes: on the executors, within the requests that the job may send.

A plan's partitions are polled in waves, or each as soon as another has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_provider_connect.capabilities.poller import LimitsPartitions
from airflow_provider_connect.registry import resumes
from airflow_provider_connect.source import InputPartition, Poller
from airflow_provider_connect.spark.capabilities.allowance import BudgetShare, RequestBudget
from airflow_provider_connect.spark.capabilities.resuming import PlanResumer
from airflow_provider_connect.spark.context import Executors, JobContext, PollPartitions
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from airflow_provider_connect.spark.progress import PollProgress, ProgressFile
from airflow_provider_connect.spark.states import PlannedDays, PolledDays
from airflow_provider_connect.stage.manifest import progress_file

_MOST = 32
"""Of the partitions that end one by one, if neither the source nor its quota says how many at once."""

NotePartition = Callable[[InputPartition, PollOutcome], None]


def lane_count(poller: Poller, parts: int, quota_limit: int) -> int | None:
    """Return how many partitions are polled at a time, each in a Spark job of its own; None if one job polls many.

    :param most: for how many the source's quota has room.
    """
    asked = poller.partitions_at_once if isinstance(poller, LimitsPartitions) else None
    if not resumes(poller) and (asked is None or parts <= min(asked, quota_limit)):
        return None
    return max(1, min(asked or _MOST, quota_limit, parts))


def poll_in_waves(tasks: Sequence[str], concurrency: int, poll_partitions: PollPartitions) -> list[PollOutcome]:
    """Poll partitions, as many at once as may be; none begins after one of those before has failed."""
    outcomes: list[PollOutcome] = []
    for start in range(0, len(tasks), concurrency):
        if any(outcome.failure for outcome in outcomes):
            break
        some = tasks[start : start + concurrency]
        outcomes += [PollOutcome.model_validate_json(text) for text in poll_partitions(list(some))]
    return outcomes


def poll_in_lanes(
    partitions: Sequence[InputPartition],
    tasks: Sequence[str],
    concurrency: int,
    poll_partitions: PollPartitions,
    note_partition: NotePartition,
) -> list[PollOutcome]:
    """Poll partitions; as soon as one has ended the next begins, and none after one that failed.

    :param tasks: one for each partition.
    :param ended: is called with each that is whole, by the thread that polled it.
    :return: what came of each; one that was not begun has neither rows nor a failure.
    """
    outcomes = [PollOutcome()] * len(tasks)
    stop = threading.Event()

    def poll(at: int) -> None:
        if stop.is_set():
            return
        try:
            (text,) = poll_partitions([tasks[at]])
            outcomes[at] = PollOutcome.model_validate_json(text)
            if outcomes[at].failure is None:
                note_partition(partitions[at], outcomes[at])
        except BaseException:
            stop.set()
            raise
        if outcomes[at].failure is not None:
            stop.set()

    with ThreadPoolExecutor(concurrency, "lane") as pool:
        for polled in [pool.submit(poll, at) for at in range(len(tasks))]:
            polled.result()
    return outcomes


def merge_outcomes(
    partitions: Sequence[InputPartition], reused_outcomes: Mapping[int, PollOutcome], outcomes: list[PollOutcome]
) -> list[PollOutcome]:
    """Return what came of partitions, in their order.

    :param taken: what was there already, by the partition's index.
    :param outcomes: of the others; fewer if not all were begun, and then nothing was there.
    """
    left = iter(outcomes)
    return [reused_outcomes.get(part.index) or next(left) for part in partitions] if reused_outcomes else outcomes


@dataclass(frozen=True)
class PlanPoller:
    """Polls plans.

    :param dealer: deals out the requests that the job may send.
    """

    context: JobContext
    executors: Executors
    budget: RequestBudget
    resumer: PlanResumer

    def poll(self, planned: PlannedDays) -> PolledDays:
        """Poll all partitions of a plan that no earlier try has polled.

        :raises QuotaError: the job may not send as many requests any more.
        :raises RetriableError: Spark lost a task.
        """
        days, taken = planned.days, planned.reused_outcomes
        left = [part for part in planned.partitions if part.index not in taken]
        firsts = {part.index: part.days[0] for part in left}
        signs = {at: ProgressFile(day, progress_file(days.attempt_of(day), at)) for at, day in firsts.items()}
        poll = PollProgress(days.days, signs, len(taken))
        executors, progress = self.executors, self.context.progress
        with progress.polling(poll), self.budget.reserve(left, planned.reserved_requests) as hand:
            width = lane_count(self.context.intake.poller, len(left), executors.concurrent_parts)
            plans = executors.concurrent_plans
            at_once = (width or min(len(left), executors.concurrent_parts)) * plans if plans else None
            tasks = [self._task(planned, part, hand, at_once) for part in left]
            if width is None:
                outcomes = hand.outcomes = poll_in_waves(tasks, executors.concurrent_parts, executors.poll_partitions)
            else:
                ended = poll.count_ended(self.resumer.note_partition)
                outcomes = hand.outcomes = poll_in_lanes(left, tasks, width, executors.poll_partitions, ended)
        for part, outcome in zip(left, outcomes, strict=False):
            progress.log_retries(poll, part.index, outcome.retries)
        return PolledDays(planned, merge_outcomes(planned.partitions, taken, outcomes))

    def _task(self, planned: PlannedDays, part: InputPartition, hand: BudgetShare, polls_at_once: int | None) -> str:
        job, days = self.context.job, planned.days
        return PollTask(
            source_name=job.source_name,
            source=job.source,
            part=part,
            root=self.context.polled_root.url,
            attempts=tuple(map(days.attempt_of, part.days)),
            polled_before=tuple(map(days.last_polled_at, part.days)),
            progress_seconds=job.progress_seconds,
            ends_late=planned.ends_at_deadline,
            polls_at_once=polls_at_once,
            rejects_keep=job.rejects_keep,
            **self.context.staging_options(days.erase_list),
            **hand.limits(part),
        ).model_dump_json()
