"""Brings days into the stage: polls them on the executors, or finds those that an earlier try left."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from airflow_provider_connect import __version__
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConnectError, Failure, worst
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.publishing import seen_in
from airflow_provider_connect.sink import LedgerRow, Sink
from airflow_provider_connect.source import InputPartition, Poller, Source
from airflow_provider_connect.spark.allowance import Dealer, Hand
from airflow_provider_connect.spark.asked import planned
from airflow_provider_connect.spark.counts import Counts
from airflow_provider_connect.spark.poll import PollOutcome, PollTask
from airflow_provider_connect.spark.progress import Poll, Progress, Sign, say
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.stage.manifest import (
    CONTROL,
    MANIFEST,
    Manifest,
    Polled,
    Seen,
    manifest_file,
    progress_file,
)
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day

PollParts = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Known:
    """What the ledger says of days before they are polled.

    :param newest: by day, the publish that the next one must follow.
    :param erased: whose rows are left out.
    """

    newest: Mapping[Day, LedgerRow | None]
    erased: EraseList = field(default_factory=EraseList)

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
    """

    job: JobConfig
    source: Source
    sink: Sink
    connection: Connection
    poller: Poller
    root: Folder
    progress: Progress
    poll_parts: PollParts
    dealer: Dealer = field(default_factory=Dealer)
    counts: Counts | None = None
    parts_at_once: int = sys.maxsize

    def poll(self, known: Known, attempt: str) -> dict[Day, Manifest | Failure]:
        """Poll the days of one plan, and write a manifest for each that could be polled.

        :param known: names the days, in ascending order.
        :param attempt: the attempt's name, without the day.
        :raises ConnectError: what is wrong with all of them.
        """
        days = tuple(known.newest)
        attempts = {day: f"{attempt}-{day.date:%Y%m%d}" for day in days}
        started, polled_at = time.monotonic(), dt.datetime.now(dt.UTC)
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
                polled_at=polled_at,
            )
            self.root.write(manifest_file(attempts[day]), manifest.model_dump_json().encode(), durable=True)
            found[day] = manifest
        return found

    def _polled(self, days: Sequence[Day], attempts: Mapping[Day, str], known: Known) -> dict[Day, Polled | Failure]:
        """Poll days, all partitions at once.

        :raises ConnectError: the plan is of other days, or Spark lost a task.
        :raises QuotaError: the job may not send as many requests any more.
        """
        if self.counts is not None:
            for day in days:
                self.counts.before_plan(day)
        parts = planned(self.poller, days)
        firsts = {part.index: part.days[0] for part in parts}
        poll = Poll(days, {at: Sign(day, progress_file(attempts[day], at)) for at, day in firsts.items()})
        with self.progress.polling(poll), self.dealer.dealt(parts, self.source.requests_for(days[:1])) as hand:
            outcomes = hand.outcomes = self._outcomes([self._task(part, attempts, known, hand) for part in parts])
        for part, outcome in zip(parts, outcomes, strict=False):
            self.progress.retried(poll, part.index, outcome.retries)
        return {day: _of_day(day, parts, outcomes) for day in days}

    def _outcomes(self, tasks: Sequence[str]) -> list[PollOutcome]:
        """Poll partitions, as many at once as may be; none begins after one of those before has failed."""
        outcomes: list[PollOutcome] = []
        for start in range(0, len(tasks), self.parts_at_once):
            if any(outcome.failure for outcome in outcomes):
                break
            some = tasks[start : start + self.parts_at_once]
            outcomes += [PollOutcome.model_validate_json(text) for text in self.poll_parts(list(some))]
        return outcomes

    def _task(self, part: InputPartition, attempts: Mapping[Day, str], known: Known, hand: Hand) -> str:
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
            **hand.limits(part),
        ).model_dump_json()

    def kept(self, day: Day, seen: Seen) -> Manifest | None:
        """Return the newest manifest of an earlier try of the same intent whose files all exist.

        It must have the same ``seen``: otherwise its answer may be older than what is published.
        """
        for found in self.leftovers(day):
            if found.seen == seen and self._is_whole(found):
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
    def _earlier_attempts(self) -> list[str]:
        """Finished attempts of the same intent, newest first; listed once a job, since dead tries finish nothing."""
        intent = self.job.attempt.split("-")[0]
        found = [
            (entry.modified, folder.rpartition("/")[2])
            for entry in self.root.files(f"{CONTROL}/attempts")
            for folder, _, name in [entry.name.rpartition("/")]
            if name == MANIFEST
        ]
        return [attempt for _, attempt in sorted(found, reverse=True) if attempt.startswith(f"{intent}-")]

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

        The sink's options count, unlike in the fingerprint: the same rows go into another table, or another format, if
        they change. So does this package's version: a later one may write them otherwise, or have been right where the
        earlier one was wrong.
        """
        contents = manifest.polled.contents
        if contents is None:
            return None
        text = json.dumps([contents, manifest.fingerprint, self.job.sink], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all that decides what a poll yields and where it goes: code, options, connection and target.

        The target is in it because sinks with different ledgers may share one stage.
        """
        place = self.connection.model_dump(include={"conn_id", "host", "port", "path"})
        place |= {name: self.connection.extra.get(name) for name in self.source.connection_fields}
        into = [self.job.sink_name, self.sink.target]
        text = json.dumps(
            [__version__, self.job.source_name, self.job.source, place, into], sort_keys=True, default=str
        )
        return hashlib.sha256(text.encode()).hexdigest()


def _of_day(day: Day, parts: Sequence[InputPartition], outcomes: Sequence[PollOutcome]) -> Polled | Failure:
    """Return what the partitions that name a day brought of it, or the worst of their failures."""
    planned = [part for part in parts if day in part.days]
    answers = [outcome for part, outcome in zip(parts, outcomes, strict=False) if day in part.days]
    failure = worst([answer.failure for answer in answers if answer.failure])
    if failure is not None:
        return failure
    polled = [answer.polled[day.date] for answer in answers if answer.polled is not None]
    if len(polled) != len(planned):
        text = f"day {day}: {len(planned)} partitions were planned, but {len(polled)} answered"
        return Failure.of(ConnectError(text))
    return Polled.total(polled)
