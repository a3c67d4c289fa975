"""``airflow connect rejects list`` and ``show``: what was set aside of published days, without Spark."""

from __future__ import annotations

import datetime as dt
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.capabilities.publisher import KeepsRejects
from airflow_provider_connect.cli.tasks import Pipeline, Task, connect_task, connect_tasks
from airflow_provider_connect.cli.terminal import PROBLEMS, command, cut, note, show
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sink import Publisher
from airflow_provider_connect.stage.rejects import DayRejects, SetAside
from airflow_provider_connect.window import ONE_DAY, Day, parse_days

_DAYS = 30
_REASONS = 3
"""So many of a day's reasons are shown in a table; JSON and YAML have all."""


@command
def list_rejects(args: Namespace) -> int:
    """Print a line for each day of which records were set aside; end with :data:`.PROBLEMS` if there is one."""
    lines: list[dict[str, Any]] = []
    for task in connect_tasks(args.dag_id, args.task_id, args.bundle_name):
        first, last = _ends(task, args.days)
        pipeline = task.rendered(Day(date=first, zone=task.zone))
        with pipeline.publisher() as publisher:
            for found in rejects_of(pipeline, publisher, first, last, records=0):
                lines.append(_line(task, Counted.of(found), args.output))
    show(lines, args.output)
    return PROBLEMS if lines else 0


@command
def show_rejects(args: Namespace) -> int:
    """Print the records of a day; end with :data:`.PROBLEMS` if the ledger has nothing of it."""
    if args.rows < 1:
        raise ConfigError("--rows: ask for at least one")
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    day = task.day(args.day)
    pipeline = task.rendered(day)
    with pipeline.publisher() as publisher:
        if publisher.ledger.row(day.date) is None:
            note(f"{task.name}: {pipeline.sink.target} has nothing of {day}")
            show([], args.output)
            return PROBLEMS
        found = next(rejects_of(pipeline, publisher, day.date, day.date, records=args.rows), None)
        counted = None if found is None else Counted.of(found, args.rows)
    note(f"{task.name}, {day}: {'nothing was set aside' if counted is None else counted.describe()}")
    shown = counted.first if counted else []
    if args.records and shown:
        note("The column record is your data, as the source sent it or as a row of JSON")
    show([_record(each, args) for each in shown], args.output)
    return 0


@dataclass
class Counted:
    """A day's rejects, counted, and the first of them.

    :param found: how many are still there.
    """

    day: DayRejects
    found: int = 0
    origins: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first: list[SetAside] = field(default_factory=list)

    @classmethod
    def of(cls, day: DayRejects, most: int = 0) -> Counted:
        """Read a day's rejects to their end.

        :param most: how many of them to keep.
        """
        counted = cls(day)
        for each in day.records:
            counted.found += 1
            counted.origins[each.origin] += 1
            counted.reasons[f"{each.column}: {each.reason}" if each.column else each.reason] += 1
            if len(counted.first) < most:
                counted.first.append(each)
        return counted

    @property
    def rejected(self) -> int:
        """How many were set aside, as far as anybody knows."""
        return self.found if self.day.counted is None else self.day.counted

    @property
    def gone(self) -> int:
        """How many of them are not there any more."""
        return max(0, self.rejected - self.found)

    def describe(self) -> str:
        """Say how many there are and where."""
        gone = f"; {self.gone:,} of them are gone from there" if self.gone else ""
        return f"generation {self.day.generation}, {self.rejected:,} set aside, in {self.day.where}{gone}"


def rejects_of(
    pipeline: Pipeline, publisher: Publisher, first: dt.date, last: dt.date, records: int
) -> Iterator[DayRejects]:
    """Return what a sink keeps of some days' rejects.

    :raises ConfigError: it keeps none.
    """
    if not isinstance(publisher, KeepsRejects):
        raise ConfigError(
            f"task {pipeline.task.name}: sink {pipeline.sink.name!r} keeps no rejects that could be looked at here; "
            "the ledger counts them: 'airflow connect ledger'"
        )
    return publisher.rejects(first, last, records)


def _ends(task: Task, text: str | None) -> tuple[dt.date, dt.date]:
    if text is None:
        last = task.day(None).date
        return last - ONE_DAY * (_DAYS - 1), last
    days = parse_days(text, task.zone)
    return days[0].date, days[-1].date


def reasons_of(counted: Mapping[str, int], output: str) -> dict[str, int] | str:
    """Return how often each reason was given: all of them for a program, the most frequent as a text for people."""
    most = Counter(counted)
    if output in ("json", "yaml"):
        return dict(most.most_common())
    shown = most.most_common(_REASONS)
    others = most.total() - sum(count for _, count in shown)
    texts = [f"{count:,} x {reason}" for reason, count in shown] + [f"{others:,} x others"] * bool(others)
    return "; ".join(texts)


def _line(task: Task, counted: Counted, output: str) -> dict[str, Any]:
    return {
        "task": task.name,
        "day": counted.day.day,
        "generation": counted.day.generation,
        "rejected": counted.rejected,
        "gone": counted.gone,
        "from": dict(counted.origins),
        "reasons": reasons_of(counted.reasons, output),
    }


def _record(reject: SetAside, args: Namespace) -> dict[str, Any]:
    line: dict[str, Any] = {
        "from": reject.origin,
        "position": reject.position,
        "column": reject.column,
        "reason": reject.reason,
        "digest": reject.digest,
    }
    if args.records:
        line["record"] = _text(reject, whole=args.output in ("json", "yaml"))
    return line


def _text(reject: SetAside, *, whole: bool) -> str:
    if reject.record is None:
        return "(record not kept)"
    text = reject.record.decode(errors="backslashreplace")
    return text if whole else cut(text)
