"""Brings days into the stage: polls them on the executors, or finds those that an earlier try left."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa

from airflow_provider_connect import __version__
from airflow_provider_connect.capabilities.counting import counts_first, parts_at_once
from airflow_provider_connect.capabilities.following import Follows
from airflow_provider_connect.capabilities.quota import requests_for
from airflow_provider_connect.capabilities.required import require_capability
from airflow_provider_connect.capabilities.several_days import days_per_plan
from airflow_provider_connect.capabilities.soft_deletes import stages_marks
from airflow_provider_connect.capabilities.splitting import AcceptsParts, Splits
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, DeadlineError, Failure
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.sink import LedgerRow, Sink
from airflow_provider_connect.source import InputPartition, Poller, Source
from airflow_provider_connect.spark.allowance import Dealer, Hand
from airflow_provider_connect.spark.counts import Counts
from airflow_provider_connect.spark.deadlines import Deadlines, is_late, is_only_late
from airflow_provider_connect.spark.lanes import PollParts, in_lanes, in_waves, lanes, of_day, together
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from airflow_provider_connect.spark.progress import Poll, Progress, Sign, say
from airflow_provider_connect.spark.resuming import Resuming
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.stage.manifest import (
    CONTROL,
    DEADLINE,
    MANIFEST,
    Manifest,
    Polled,
    Seen,
    manifest_file,
    progress_file,
)
from airflow_provider_connect.stage.plans import PLAN, Plan
from airflow_provider_connect.stage.spans import Restart, Span, following
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class Known:
    """What the ledger says of days before they are polled.

    :param newest: by day, the publish that the next one must follow.
    :param erased: whose rows are left out; ``restart``: where an increment begins after an alarm.
    """

    newest: Mapping[Day, LedgerRow | None]
    erased: EraseList = field(default_factory=EraseList)
    restart: Restart | None = None

    def seen(self, day: Day) -> Seen:
        """Return what the commit compares."""
        return seen_in(self.newest[day], self.erased.version)

    def polled_at(self, day: Day) -> dt.datetime | None:
        """Return when the day itself was polled last."""
        newest = self.newest[day]
        return newest.polled_at if newest is not None and newest.day == day.date else None


@dataclass(frozen=True)
class Freezer:
    """Freezes days into the stage, each under an attempt of its own.

    :param poll_parts: runs :func:`.poll.run` over tasks on the executors.
    :param dealer: deals out the requests that the job may send.
    :param counts: the vendor's own, which some plans need.
    :param parts_at_once: how many partitions of a plan may be polled at the same time.
    :param plans_at_once: how many plans are under way at the same time; None if nobody knows.
    :param plans: those of days that are read in many partitions; they come as days are planned.
    :param shaping: what the poll does to rows.
    """

    job: JobConfig
    source: Source
    sink: Sink
    connection: Connection
    poller: Poller
    schema: pa.Schema
    root: Folder
    progress: Progress
    poll_parts: PollParts
    dealer: Dealer = field(default_factory=Dealer)
    counts: Counts | None = None
    parts_at_once: int = sys.maxsize
    plans_at_once: int | None = None
    plans: dict[Day, Plan] = field(default_factory=dict)
    shaping: Shaping = field(default_factory=Shaping)

    def poll(self, known: Known, attempt: str) -> dict[Day, Manifest | Failure]:
        """Poll the days of one plan, and write a manifest for each that could be polled.

        :param known: names the days, in ascending order.
        :param attempt: the attempt's name, without the day.
        :raises ConnectError: what is wrong with all of them.
        """
        days = tuple(known.newest)
        attempts = {day: f"{attempt}-{day.date:%Y%m%d}" for day in days}
        started, polled_at = time.monotonic(), dt.datetime.now(dt.UTC)
        spans = {day: self._span(day, known) for day in days}
        polled = self._polled(days, attempts, known)
        seconds = time.monotonic() - started
        found: dict[Day, Manifest | Failure] = {}
        for day, answer in polled.items():
            if isinstance(answer, Failure):
                found[day] = answer
                continue
            manifest = Manifest(
                day=day,
                attempt=attempts[day],
                fingerprint=self.fingerprint,
                polled=answer.model_copy(update={"seconds": seconds}),
                seen=known.seen(day),
                polled_at=self.resuming.begun(day) or polled_at,
                span=spans[day],
            )
            self.root.write(manifest_file(attempts[day]), manifest.model_dump_json().encode(), durable=True)
            found[day] = manifest
        return found

    def _polled(self, days: Sequence[Day], attempts: Mapping[Day, str], known: Known) -> dict[Day, Polled | Failure]:
        """Poll days, all partitions at once; a day that ran into its deadline again, in more of them.

        Days that ran into a deadline together are asked for one by one.

        :raises ConnectError: the plan is of other days, or Spark lost a task.
        :raises QuotaError: the job may not send as many requests any more.
        """
        if len(days) > 1 and not all(self.deadlines.is_together(day) for day in days):
            return self._singly(days, attempts, known)
        began, spent = time.monotonic(), 0
        while True:
            self._prepare(days)
            is_split = self.deadlines.tried(days[0]) > 0
            parts = self.resuming.planned(days, attempts, known.seen, is_split=is_split)
            if len(parts) > 1:
                self._hold_split(days)
            ends_late = len(days) > 1 or self._may_split(days, parts)
            outcomes = self._asked(days, parts, attempts, known, ends_late=ends_late)
            found = {day: self._accepted(day, of_day(day, parts, outcomes)) for day in days}
            if not ends_late or not is_late(outcomes):
                return found
            for day in days:
                self.deadlines.note(day, attempts[day], len(parts) if len(days) == 1 else 0)
            spent += sum(len(outcome.sent) for outcome in outcomes)
            is_spent = (
                time.monotonic() - began >= self.source.retry_budget_seconds
                or spent >= self.source.retry_budget_requests
            )
            if is_spent or not is_only_late(outcomes):
                return {day: _to_be_split(failure) for day, failure in found.items()}
            if len(days) > 1:
                say(f"days {days[0]}..{days[-1]}: a request ran into its deadline: each day is asked for alone")
                return self._singly(days, attempts, known)
            say(f"day {days[0]}: a request ran into its deadline: the day is asked for in more than {len(parts)}")

    def _singly(self, days: Sequence[Day], attempts: Mapping[Day, str], known: Known) -> dict[Day, Polled | Failure]:
        """Poll days one after the other; after a failure that concerns all, the rest is not asked for."""
        found: dict[Day, Polled | Failure] = {}
        for day in days:
            try:
                found |= self._polled((day,), attempts, known)
            except Exception as error:  # noqa: BLE001  # the days before have come, and are published
                found[day] = Failure.of(error)
            last = found[day]
            if isinstance(last, Failure) and last.forbids_more:
                return dict.fromkeys(days, last) | found
        return found

    def _span(self, day: Day, known: Known) -> Span | None:
        """Fix what an increment reads: what the day has read before, else what came since the stream's newest.

        :raises ConfigError: the ledger has no position to go on from.
        """
        if self.source.kind != "increment":
            return None
        follower = require_capability(self.poller, Follows, "its rows are increments")
        try:
            return following(known.newest[day], day.date, partial(follower.follow, day), known.restart)
        except ValueError as error:
            raise ConfigError(
                f"{self.source.stream_key} {day}: the publish that this one follows was no increment, and {error}: "
                "load the stream into a target of its own"
            ) from None

    def _accepted(self, day: Day, found: Polled | Failure) -> Polled | Failure:
        if isinstance(found, Polled) and found.parts > 1:
            try:
                if isinstance(self.poller, AcceptsParts):
                    self.poller.accept(day, found.counts)
            except ConnectError as error:
                return Failure.of(error)
        return found

    def _asked(
        self,
        days: Sequence[Day],
        parts: Sequence[InputPartition],
        attempts: Mapping[Day, str],
        known: Known,
        *,
        ends_late: bool,
    ) -> list[PollOutcome]:
        taken = self.resuming.taken(days)
        left = [part for part in parts if part.index not in taken]
        firsts = {part.index: part.days[0] for part in left}
        poll = Poll(days, {at: Sign(day, progress_file(attempts[day], at)) for at, day in firsts.items()}, len(taken))
        cost = 0 if days[0].date in self.deadlines.late_now else requests_for(self.source, days[:1])
        with self.progress.polling(poll), self.dealer.dealt(left, cost) as hand:
            width = lanes(self.poller, len(left), self.parts_at_once)
            at_once = (width or min(len(left), self.parts_at_once)) * self.plans_at_once if self.plans_at_once else None
            tasks = [
                self._task(part, attempts, known, hand, ends_late=ends_late, polls_at_once=at_once) for part in left
            ]
            if width is None:
                outcomes = hand.outcomes = in_waves(tasks, self.parts_at_once, self.poll_parts)
            else:
                outcomes = hand.outcomes = in_lanes(left, tasks, width, self.poll_parts, poll.then(self.resuming.note))
        for part, outcome in zip(left, outcomes, strict=False):
            self.progress.retried(poll, part.index, outcome.retries)
        return together(parts, taken, outcomes)

    def _prepare(self, days: Sequence[Day]) -> None:
        """Count days whose plan needs it: those that ran into their deadline, or all, as the source says.

        :raises ConnectError: they cannot be counted.
        """
        for day in days:
            tried = self.deadlines.tried(day)
            if tried:
                require_capability(self.poller, Splits, "its source splits days").split(day, tried)
            if self.counts is None:
                continue
            try:
                self.counts.before_plan(day, is_split=tried > 0)
            except ConfigError as error:
                if not tried or counts_first(self.source) is not None:
                    raise
                say(f"day {day}: ran into its deadline, but is asked for in one request again: {error}")
                self.deadlines.left_whole.add(day.date)
                require_capability(self.poller, Splits, "its source splits days").split(day, 0)

    def _hold_split(self, days: Sequence[Day]) -> None:
        """Have days compared with the counts that decided their partitions."""
        for day in days:
            if self.counts is not None and self.deadlines.tried(day):
                self.counts.hold_to(day)

    def _may_split(self, days: Sequence[Day], parts: Sequence[InputPartition]) -> bool:
        """Whether the next plan may have more partitions: this one has more than the one that ran into its deadline."""
        may = len(days) == 1 and parts_at_once(self.source) > 1
        return may and days[0].date not in self.deadlines.left_whole and len(parts) > self.deadlines.tried(days[0])

    def _task(
        self,
        part: InputPartition,
        attempts: Mapping[Day, str],
        known: Known,
        hand: Hand,
        *,
        ends_late: bool,
        polls_at_once: int | None,
    ) -> str:
        return PollTask(
            source_name=self.job.source_name,
            source=self.job.source,
            part=part,
            root=self.root.url,
            attempts=tuple(attempts[day] for day in part.days),
            polled_before=tuple(known.polled_at(day) for day in part.days),
            progress_seconds=self.job.progress_seconds,
            erased=known.erased,
            tables=self.sink.tables,
            soft_deletes=stages_marks(self.sink, self.source.kind),
            ends_late=ends_late,
            polls_at_once=polls_at_once,
            rejects_keep=self.job.rejects_keep,
            **hand.limits(part),
        ).model_dump_json()

    def kept(self, day: Day, seen: Seen) -> Manifest | None:
        """Return the newest whole manifest of an earlier try of the same intent that has seen the same publish."""
        for found in self.leftovers(day):
            if found.seen == seen and self._is_whole(found):
                if found.polled.parts > 1:
                    self._hold_split([day])
                return found
        return None

    def leftovers(self, day: Day) -> Iterator[Manifest]:
        """Yield a day's manifests from earlier tries of the same intent and fingerprint, newest first."""
        for attempt in self._earlier_attempts:
            if attempt.endswith(f"-{day.date:%Y%m%d}"):
                manifest = self._manifest(day, attempt)
                if manifest is not None and manifest.fingerprint == self.fingerprint:
                    yield manifest

    @cached_property
    def deadlines(self) -> Deadlines:
        """The days that ran into the deadline of a request."""
        found = Deadlines(self.root, self.fingerprint)
        if parts_at_once(self.source) > 1 or days_per_plan(self.poller) > 1:
            found.read(attempt for attempt, name in self._left_by_earlier_jobs if name == DEADLINE)
        return found

    @cached_property
    def resuming(self) -> Resuming:
        """The plans of days, those that earlier tries left among them."""
        left = [attempt for attempt, name in self._left_by_earlier_jobs if name == PLAN]
        return Resuming(self.root, self.poller, self.fingerprint, left, self.plans)

    @property
    def _earlier_attempts(self) -> list[str]:
        """Finished attempts of the same intent, newest first."""
        return [attempt for attempt, name in self._left_by_earlier_jobs if name == MANIFEST]

    @cached_property
    def _left_by_earlier_jobs(self) -> list[tuple[str, str]]:
        """What earlier attempts of the same intent left to be read, newest first: attempts, and names of files.

        Listed once a job, since dead tries finish nothing.
        """
        intent = self.job.attempt.split("-")[0]
        found = [
            (entry.modified, folder.rpartition("/")[2], name)
            for entry in self.root.files(f"{CONTROL}/attempts")
            for folder, _, name in [entry.name.rpartition("/")]
            if name in (MANIFEST, DEADLINE, PLAN)
        ]
        return [(attempt, name) for _, attempt, name in sorted(found, reverse=True) if attempt.startswith(f"{intent}-")]

    def _manifest(self, day: Day, attempt: str) -> Manifest | None:
        """Read a manifest; None if a sweep has just deleted it, or it is not one of this version."""
        name = manifest_file(attempt)
        try:
            return Manifest.read(self.root.read(name), day, attempt)
        except FileNotFoundError:
            return None
        except ValueError:
            say(f"{self.root.url}/{name} is ignored: another version of this package wrote it, or somebody changed it")
            return None

    def _is_whole(self, manifest: Manifest) -> bool:
        files = (*manifest.polled.files, *manifest.polled.rejects)
        found = self.root.entries([file.path for file in files])
        return all(file.path in found and found[file.path].size_bytes == file.size_bytes for file in files)

    def answer(self, manifest: Manifest) -> str | None:
        """Return the digest of an answer and of all that decides what becomes of it; None if its rows have none.

        The sink's options count, unlike in the fingerprint: with others the same rows go into another table or format.
        So does this package's version: a later one may write them otherwise.
        """
        contents = manifest.polled.contents
        if contents is None:
            return None
        text = json.dumps([contents, manifest.fingerprint, self.job.sink], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all that decides what a poll yields and where it goes: options, shapes, place, columns, target."""
        place = self.connection.model_dump(include={"conn_id", "host", "port", "path"})
        place |= {name: self.connection.extra.get(name) for name in self.source.connection_fields}
        # Sinks with different ledgers may share one stage.
        into = [self.job.sink_name, self.sink.target, stages_marks(self.sink, self.source.kind)]
        told = self.job.model_dump(include={"source_name", "source", "shape", "rejects_keep"})
        keys = self.shaping.digests(self.sink.target)  # an id has another hash under another key
        asked = [__version__, told, place, into, self.schema.serialize().to_pybytes().hex(), keys]
        text = json.dumps(asked, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def _to_be_split(found: Polled | Failure) -> Polled | Failure:
    """Say of a failure at the deadline what comes next."""
    if not isinstance(found, Failure) or found.type != DeadlineError.__name__:
        return found
    return found.model_copy(update={"message": f"{found.message}; the next try asks for the day in more requests"})
