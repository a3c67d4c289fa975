"""``airflow connect rejects list`` and ``show``: rejected records of published days, without Spark."""

from __future__ import annotations

import datetime as dt
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.capabilities.publisher import KeepsRejects
from airflow_provider_connect.cli.tasks import (
    DeclaredTask,
    RenderedTask,
    accept_former_day,
    connect_task,
    connect_tasks,
)
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, command, print_note, print_rows, shorten
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Publisher
from airflow_provider_connect.stage.rejects import DayRejects, RejectedRecord
from airflow_provider_connect.window import ONE_DAY, Day, parse_days

_DAYS = 30
_REASONS = 3


@command
def list_rejects(args: Namespace) -> int:
    """Print each day with rejects. The exit code is :data:`.EXIT_PROBLEMS` if there is one."""
    lines: list[dict[str, Any]] = []
    for task in connect_tasks(args.dag_id, args.task_id, args.bundle_name):
        first, last = _first_and_last_day(task, args.days)
        pipeline = task.render(Day(date=first, zone=task.zone))
        with pipeline.open_publisher() as publisher:
            for day_rejects in read_rejects(pipeline, publisher, first, last, records=0):
                lines.append(_day_line(task, RejectCounts.count(day_rejects), args.output))
    print_rows(lines, args.output, empty="no published day of these has rejects")
    return EXIT_PROBLEMS if lines else 0


@command
def show_rejects(args: Namespace) -> int:
    """Print the rejects of a day. The exit code is :data:`.EXIT_PROBLEMS` if the ledger lacks the day."""
    if args.rows < 1:
        raise ConfigError("--rows must be at least 1")
    accept_former_day(args)
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    day = task.day_of(args.day)
    pipeline = task.render(day)
    with pipeline.open_publisher() as publisher:
        if publisher.ledger.row(day.date) is None:
            print_note(f"{task.name}: {pipeline.sink.target} has no publish of {day}")
            print_rows([], args.output, empty="")
            return EXIT_PROBLEMS
        day_rejects = next(read_rejects(pipeline, publisher, day.date, day.date, records=args.rows), None)
        counts = None if day_rejects is None else RejectCounts.count(day_rejects, args.rows)
    print_note(f"{task.name}, {day}: {'no rejects' if counts is None else counts.describe()}")
    shown_records = counts.first_records if counts else []
    if args.records and shown_records:
        print_note("The column record is your data, in the source's form or as a JSON row")
    print_rows([_record_line(record, args) for record in shown_records], args.output, empty="")
    return 0


@dataclass
class RejectCounts:
    """A day's rejects, counted by origin and reason."""

    day_rejects: DayRejects
    remaining: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first_records: list[RejectedRecord] = field(default_factory=list)

    @classmethod
    def count(cls, day: DayRejects, max_records: int = 0) -> RejectCounts:
        """Count a day's rejects and keep the first ``max_records`` records."""
        counts = cls(day)
        for record in day.records:
            counts.remaining += 1
            counts.origins[record.origin] += 1
            counts.reasons[f"{record.column}: {record.reason}" if record.column else record.reason] += 1
            if len(counts.first_records) < max_records:
                counts.first_records.append(record)
        return counts

    @property
    def rejected(self) -> int:
        """Number of rejects by the ledger, else by the sink."""
        return self.remaining if self.day_rejects.ledger_count is None else self.day_rejects.ledger_count

    @property
    def missing(self) -> int:
        """Number of rejects that the sink no longer has."""
        return max(0, self.rejected - self.remaining)

    def describe(self) -> str:
        """Describe number and place of the rejects."""
        day, missing_text = self.day_rejects, f". {self.missing:,} of them are no longer there" if self.missing else ""
        return f"generation {day.generation} has {self.rejected:,} rejects in {day.location}{missing_text}"


def read_rejects(
    pipeline: RenderedTask, publisher: Publisher, first: dt.date, last: dt.date, records: int
) -> Iterator[DayRejects]:
    """Return the rejects of days, oldest day first, each with up to ``records`` records' content.

    :raises ConfigError: the sink keeps no rejects.
    """
    if not isinstance(publisher, KeepsRejects):
        raise ConfigError(
            f"task {pipeline.task.name}: sink {pipeline.sink.name!r} keeps no rejects. "
            "'airflow connect ledger' shows their number"
        )
    return publisher.rejects(first, last, records)


def _first_and_last_day(task: DeclaredTask, text: str | None) -> tuple[dt.date, dt.date]:
    if text is None:
        last = task.parse_day(None).date
        return last - ONE_DAY * (_DAYS - 1), last
    days = parse_days(text, task.zone)
    return days[0].date, days[-1].date


def format_reasons(count_by_reason: Mapping[str, int], output: str) -> dict[str, int] | str:
    """Format the number of rejects by reason: a dict for JSON and YAML, else a text."""
    counter = Counter(count_by_reason)
    if output in ("json", "yaml"):
        return dict(counter.most_common())
    frequent = counter.most_common(_REASONS)
    other_count = counter.total() - sum(count for _, count in frequent)
    texts = [f"{count:,} x {reason}" for reason, count in frequent] + [f"{other_count:,} x others"] * bool(other_count)
    return "; ".join(texts)


def _day_line(task: DeclaredTask, counts: RejectCounts, output: str) -> dict[str, Any]:
    return {
        "task": task.name,
        "day": counts.day_rejects.day,
        "generation": counts.day_rejects.generation,
        "rejected": counts.rejected,
        "gone": counts.missing,
        "from": dict(counts.origins),
        "reasons": format_reasons(counts.reasons, output),
    }


def _record_line(reject: RejectedRecord, args: Namespace) -> dict[str, Any]:
    line: dict[str, Any] = {
        "from": reject.origin,
        "position": reject.position,
        "column": reject.column,
        "reason": reject.reason,
        "digest": reject.digest,
    }
    if args.records:
        line["record"] = _record_text(reject, is_full=args.output in ("json", "yaml"))
    return line


def _record_text(reject: RejectedRecord, *, is_full: bool) -> str:
    if reject.record is None:
        return "(record not kept)"
    text = reject.record.decode(errors="backslashreplace")
    return text if is_full else shorten(text)
