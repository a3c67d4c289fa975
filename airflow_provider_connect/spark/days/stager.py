"""The step from days to staged days: plan, poll, and write a manifest last.

For an increment, the step first fixes the span (range of positions) that the run reads.
"""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from functools import partial

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.errors import ConfigError, Failure
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.spark.attempts import EarlierAttempts
from airflow_provider_connect.spark.capabilities.positions import PositionKeeper
from airflow_provider_connect.spark.context import Intake
from airflow_provider_connect.spark.days.plan import DayPlanner
from airflow_provider_connect.spark.days.poll import PlanPoller
from airflow_provider_connect.spark.states import DaysToPoll, PolledDays
from airflow_provider_connect.stage.manifest import Manifest, SeenPublish, manifest_file
from airflow_provider_connect.stage.spans import Span, next_span
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class PolledStager:
    """Stages days as polled, without a transform, each under its own attempt."""

    intake: Intake
    earlier_attempts: EarlierAttempts
    planner: DayPlanner
    poller: PlanPoller
    positions: PositionKeeper

    def stage(self, days: DaysToPoll) -> dict[Day, Manifest | Failure]:
        """Poll days, and write their manifests."""
        started, polled_at = time.monotonic(), dt.datetime.now(dt.UTC)
        spans = {day: span_of(self.intake, self.positions, day, days) for day in days.days}
        answers = self.planner.splitter.poll_days(days, self._poll)
        seconds = time.monotonic() - started
        outcomes: dict[Day, Manifest | Failure] = {}
        for day, answer in answers.items():
            if isinstance(answer, Failure):
                outcomes[day] = answer
                continue
            outcomes[day] = manifest = Manifest(
                day=day,
                attempt=days.attempt_of(day),
                fingerprint=self.earlier_attempts.fingerprint,
                polled=answer.model_copy(update={"seconds": seconds}),
                seen=days.seen_publish(day),
                polled_at=self.planner.resumer.started_at(day) or polled_at,
                span=spans[day],
            )
            text = manifest.model_dump_json().encode()
            self.earlier_attempts.root.write(manifest_file(manifest.attempt), text, durable=True)
        return outcomes

    def _poll(self, days: DaysToPoll) -> PolledDays:
        return self.poller.poll(self.planner.plan(days))

    def reusable_manifest(self, day: Day, seen_publish: SeenPublish) -> Manifest | None:
        """Return an earlier try's complete manifest, or None. A split day must then match the vendor's count."""
        manifest = self.earlier_attempts.reusable_manifest(day, seen_publish)
        if manifest is not None and manifest.polled.parts > 1:
            self.planner.require_matching_counts([day])
        return manifest


def span_of(intake: Intake, positions: PositionKeeper, day: Day, days: DaysToPoll) -> Span | None:
    """Return the span that the run reads for a day: its own earlier span, or the rows after the stream's newest span.

    None if the source reads no increments.

    :raises ConfigError: the ledger has no position to continue from.
    """
    if intake.source.kind != "increment":
        return None
    follower = require_capability(intake.poller, Follows, "its rows are increments")
    try:
        find_end = partial(positions.follow, partial(follower.follow, day))
        return next_span(days.newest_rows[day], day.date, days.run, find_end, days.restart)
    except ValueError as error:
        raise ConfigError(
            f"{intake.source.stream_key} {day}: the publish before this one was not an increment, and {error}. "
            "Load the stream into its own target"
        ) from None
