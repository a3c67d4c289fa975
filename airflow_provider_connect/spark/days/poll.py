"""The step from partitions to their outcomes: on the executors, within the requests that the job may send."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_connect.source import InputPartition
from airflow_provider_connect.spark.capabilities.allowance import Dealer, Hand
from airflow_provider_connect.spark.capabilities.resuming import Resuming
from airflow_provider_connect.spark.context import Context, Executors
from airflow_provider_connect.spark.lanes import in_lanes, in_waves, lanes, together
from airflow_provider_connect.spark.poll import PollTask
from airflow_provider_connect.spark.progress import Poll, Sign
from airflow_provider_connect.spark.states import PlannedDays, PolledDays
from airflow_provider_connect.stage.manifest import progress_file


@dataclass(frozen=True)
class PlanPoller:
    """Polls plans.

    :param dealer: deals out the requests that the job may send.
    """

    context: Context
    executors: Executors
    dealer: Dealer
    resuming: Resuming

    def poll(self, planned: PlannedDays) -> PolledDays:
        """Poll all partitions of a plan that no earlier try has polled.

        :raises QuotaError: the job may not send as many requests any more.
        :raises RetriableError: Spark lost a task.
        """
        days, taken = planned.days, planned.taken
        left = [part for part in planned.parts if part.index not in taken]
        firsts = {part.index: part.days[0] for part in left}
        signs = {at: Sign(day, progress_file(days.attempt_of(day), at)) for at, day in firsts.items()}
        poll = Poll(days.days, signs, len(taken))
        executors, progress = self.executors, self.context.progress
        with progress.polling(poll), self.dealer.dealt(left, planned.cost) as hand:
            width = lanes(self.context.intake.poller, len(left), executors.parts_at_once)
            plans = executors.plans_at_once
            at_once = (width or min(len(left), executors.parts_at_once)) * plans if plans else None
            tasks = [self._task(planned, part, hand, at_once) for part in left]
            if width is None:
                outcomes = hand.outcomes = in_waves(tasks, executors.parts_at_once, executors.poll_parts)
            else:
                ended = poll.then(self.resuming.note)
                outcomes = hand.outcomes = in_lanes(left, tasks, width, executors.poll_parts, ended)
        for part, outcome in zip(left, outcomes, strict=False):
            progress.retried(poll, part.index, outcome.retries)
        return PolledDays(planned, together(planned.parts, taken, outcomes))

    def _task(self, planned: PlannedDays, part: InputPartition, hand: Hand, polls_at_once: int | None) -> str:
        job, days = self.context.job, planned.days
        return PollTask(
            source_name=job.source_name,
            source=job.source,
            part=part,
            root=self.context.polled_root.url,
            attempts=tuple(map(days.attempt_of, part.days)),
            polled_before=tuple(map(days.polled_at, part.days)),
            progress_seconds=job.progress_seconds,
            ends_late=planned.ends_late,
            polls_at_once=polls_at_once,
            rejects_keep=job.rejects_keep,
            **self.context.staging(days.erased),
            **hand.limits(part),
        ).model_dump_json()
