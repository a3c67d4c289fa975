"""The step from partitions to outcomes: polls on the executors, within the job's request budget.

Partitions are polled in waves, or in lanes: in a lane, a partition starts as soon as the previous one has ended.
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

_DEFAULT_LANES = 32

NotePartition = Callable[[InputPartition, PollOutcome], None]


def lane_count(poller: Poller, parts: int, quota_limit: int) -> int | None:
    """Return the number of lanes, where each partition is a Spark job, or None for waves, where one job polls many.

    :param quota_limit: how many partitions the source's quota allows concurrently.
    """
    source_limit = poller.partitions_at_once if isinstance(poller, LimitsPartitions) else None
    if not resumes(poller) and (source_limit is None or parts <= min(source_limit, quota_limit)):
        return None
    return max(1, min(source_limit or _DEFAULT_LANES, quota_limit, parts))


def poll_in_waves(tasks: Sequence[str], concurrency: int, poll_partitions: PollPartitions) -> list[PollOutcome]:
    """Poll partitions in waves of ``concurrency``. No wave starts after a failure."""
    outcomes: list[PollOutcome] = []
    for start in range(0, len(tasks), concurrency):
        if any(outcome.failure for outcome in outcomes):
            break
        wave = tasks[start : start + concurrency]
        outcomes += [PollOutcome.model_validate_json(text) for text in poll_partitions(list(wave))]
    return outcomes


def poll_in_lanes(
    partitions: Sequence[InputPartition],
    tasks: Sequence[str],
    concurrency: int,
    poll_partitions: PollPartitions,
    note_partition: NotePartition,
) -> list[PollOutcome]:
    """Poll partitions in lanes. No partition starts after a failure.

    :param note_partition: called with each complete partition, by the thread that polled it.
    :return: an outcome for each partition, empty if it was not started.
    """
    outcomes = [PollOutcome()] * len(tasks)
    stop = threading.Event()

    def poll(index: int) -> None:
        if stop.is_set():
            return
        try:
            (text,) = poll_partitions([tasks[index]])
            outcomes[index] = PollOutcome.model_validate_json(text)
            if outcomes[index].failure is None:
                note_partition(partitions[index], outcomes[index])
        except BaseException:
            stop.set()
            raise
        if outcomes[index].failure is not None:
            stop.set()

    with ThreadPoolExecutor(concurrency, "lane") as pool:
        for future in [pool.submit(poll, at) for at in range(len(tasks))]:
            future.result()
    return outcomes


def merge_outcomes(
    partitions: Sequence[InputPartition], reused_outcomes: Mapping[int, PollOutcome], outcomes: list[PollOutcome]
) -> list[PollOutcome]:
    """Return the outcomes of all partitions, in their order.

    :param outcomes: of the polled partitions. Some may be missing only if no outcome is reused.
    """
    new_outcomes = iter(outcomes)
    return (
        [reused_outcomes.get(part.index) or next(new_outcomes) for part in partitions] if reused_outcomes else outcomes
    )


@dataclass(frozen=True)
class PlanPoller:
    """Polls the partitions of plans."""

    context: JobContext
    executors: Executors
    budget: RequestBudget
    resumer: PlanResumer

    def poll(self, planned: PlannedDays) -> PolledDays:
        """Poll all partitions of a plan that no earlier try has polled.

        :raises QuotaError: the job may not send enough requests.
        :raises RetriableError: Spark lost a task.
        """
        days, reused_outcomes = planned.days, planned.reused_outcomes
        partitions_left = [part for part in planned.partitions if part.index not in reused_outcomes]
        first_days = {part.index: part.days[0] for part in partitions_left}
        progress_files = {
            index: ProgressFile(day, progress_file(days.attempt_of(day), index)) for index, day in first_days.items()
        }
        poll = PollProgress(days.days, progress_files, len(reused_outcomes))
        executors, progress = self.executors, self.context.progress
        with progress.polling(poll), self.budget.reserve(partitions_left, planned.reserved_requests) as share:
            width = lane_count(self.context.intake.poller, len(partitions_left), executors.concurrent_parts)
            plans = executors.concurrent_plans
            concurrent_polls = (
                (width or min(len(partitions_left), executors.concurrent_parts)) * plans if plans else None
            )
            tasks = [self._task(planned, part, share, concurrent_polls) for part in partitions_left]
            if width is None:
                outcomes = share.outcomes = poll_in_waves(tasks, executors.concurrent_parts, executors.poll_partitions)
            else:
                on_ended = poll.count_ended(self.resumer.note_partition)
                outcomes = share.outcomes = poll_in_lanes(
                    partitions_left, tasks, width, executors.poll_partitions, on_ended
                )
        for part, outcome in zip(partitions_left, outcomes, strict=False):
            progress.log_retries(poll, part.index, outcome.retries)
        return PolledDays(planned, merge_outcomes(planned.partitions, reused_outcomes, outcomes))

    def _task(
        self, planned: PlannedDays, partition: InputPartition, share: BudgetShare, polls_at_once: int | None
    ) -> str:
        job, days = self.context.job, planned.days
        return PollTask(
            source_name=job.source_name,
            source=job.source,
            part=partition,
            root=self.context.polled_root.url,
            attempts=tuple(map(days.attempt_of, partition.days)),
            polled_before=tuple(map(days.last_polled_at, partition.days)),
            progress_seconds=job.progress_seconds,
            ends_late=planned.ends_at_deadline,
            polls_at_once=polls_at_once,
            rejects_keep=job.rejects_keep,
            is_first_load=days.is_first_load,
            digests_answers=job.digests_answers,
            **self.context.staging_options(days.erase_list),
            **share.limits(partition),
        ).model_dump_json()
