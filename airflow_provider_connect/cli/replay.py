"""``airflow connect rejects replay``: polls a day anew with the DAG as it is now, and compares what was set aside.

Nothing is put together from the rejects: the day is loaded whole, under the same ledger as by a task (:mod:`.run`). So
it needs a source that still has the day.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.capabilities.publisher import KeepsRejects
from airflow_provider_connect.cli.rejects import RejectCounts, format_reasons
from airflow_provider_connect.cli.run import move_days
from airflow_provider_connect.cli.tasks import RenderedTask, connect_task
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, command, print_note, print_rows
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class DayInSink:
    """What the sink says of a day.

    :param rejected: how many records were set aside.
    :param reasons: why, of those that are still there.
    """

    row: LedgerRow
    rejected: int
    reasons: Mapping[str, int] = field(default_factory=dict)


def _replay(args: Namespace) -> int:
    """Print what was set aside before and after; end with :data:`.EXIT_PROBLEMS` if anything still is."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    day = task.parse_day(args.day)
    pipeline = task.render(day)
    before = _standing(pipeline, day)
    if before is None:
        print_note(f"{task.name}: {pipeline.sink.target} has nothing of {day}: 'airflow connect run' loads it")
        return EXIT_PROBLEMS
    if not before.rejected:
        print_note(f"{task.name}, {day}: nothing was set aside, so there is nothing to replay")
        return 0
    print_note(f"{task.name}, {day}: {before.rejected:,} set aside; the day is polled anew, as its DAG says now")
    try:
        move_days(task, str(day))
    except ConnectError:
        _say_what_stays(pipeline, day, before)
        raise
    after = _standing(pipeline, day)
    assert after is not None
    _compare(pipeline, day, before, after)
    print_rows([_line(when, each, args.output) for when, each in (("before", before), ("after", after))], args.output)
    return EXIT_PROBLEMS if after.rejected else 0


replay = command(_replay, changes=True)


def _standing(pipeline: RenderedTask, day: Day) -> DayInSink | None:
    """Ask the sink for a day; None if it has nothing of it.

    :raises ConfigError: polling the day again would not give the day again, or double it.
    """
    with pipeline.open_publisher() as publisher:
        ledger = publisher.ledger
        row = ledger.row(day.date)
        if row is None:
            return None
        _require_the_day(pipeline, day, [*ledger.days()][-1:] if pipeline.source.kind == "snapshot" else [])
        if not isinstance(publisher, KeepsRejects):
            return DayInSink(row, row.counts.get("rejected", 0))
        found = next(publisher.rejects(day.date, day.date, 0), None)
        if found is None:
            return DayInSink(row, 0)
        counted = RejectCounts.count(found)
        return DayInSink(row, counted.rejected, counted.reasons)


def _require_the_day(pipeline: RenderedTask, day: Day, newest: list[Any]) -> None:
    """Refuse where a poll would not help.

    :param newest: of a snapshot, the newest published day.
    """
    name = pipeline.task.name
    if newest and newest[0] > day.date:
        raise ConfigError(
            f"task {name}: source {pipeline.source.name!r} gives snapshots, and no longer has that of {day}: asked "
            f"now, it answers with what is there now. What is mended in it comes with the next run; or replay "
            f"{newest[0]}, the newest. 'airflow connect rejects show --records' prints what is kept of {day}"
        )
    if not pipeline.sink.reloads:
        raise ConfigError(
            f"task {name}: sink {pipeline.sink.name!r} of {pipeline.sink.target} only adds, and would have the rows of "
            f"{day} twice. Let it replace (write_mode='replace'), or load by hand what 'airflow connect rejects show "
            "--records' prints"
        )


def _say_what_stays(pipeline: RenderedTask, day: Day, before: DayInSink) -> None:
    """Say, beside an error, that the day is as it was."""
    try:
        now = _standing(pipeline, day)
    except ConnectError:  # the sink is what failed
        return
    if now is None or now.row.generation != before.row.generation:
        return
    print_note(
        f"{pipeline.task.name}, {day}: nothing was replaced: generation {now.row.generation} stays, with "
        f"{now.row.rows:,} rows and {now.rejected:,} set aside. If the source no longer has the day, 'airflow connect "
        "rejects show --records' prints all there is"
    )


def _compare(pipeline: RenderedTask, day: Day, before: DayInSink, after: DayInSink) -> None:
    """Say what a table of two lines does not."""
    called = f"{pipeline.task.name}, {day}"
    if pipeline.source.kind == "snapshot":
        print_note(f"{called}: the source gives snapshots: this is what is there now, not what was there then")
    if after.row.answer is not None and after.row.answer == before.row.answer:
        print_note(
            f"{called}: the source gave the same answer, and the DAG does the same with it: mend one of them first"
        )
    lost = before.row.rows + before.rejected - after.row.rows - after.rejected
    if lost > 0:
        print_note(
            f"{called}: rows and rejects together are {lost:,} fewer than before: the source no longer has the rest, "
            "or the DAG now leaves it out"
        )


def _line(when: str, standing: DayInSink, output: str) -> dict[str, Any]:
    return {
        "when": when,
        "generation": standing.row.generation,
        "rows": standing.row.rows,
        "rejected": standing.rejected,
        "reasons": format_reasons(standing.reasons, output),
    }
