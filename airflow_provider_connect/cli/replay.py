"""``airflow connect rejects replay``: polls a day again and compares the rejects."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.capabilities.publisher import KeepsRejects
from airflow_provider_connect.cli.rejects import RejectCounts, format_reasons
from airflow_provider_connect.cli.run import move_days
from airflow_provider_connect.cli.tasks import RenderedTask, accept_former_day, connect_task
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, command, print_note, print_rows
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.window import Day


@dataclass(frozen=True)
class DayInSink:
    """A day's ledger row and rejects."""

    row: LedgerRow
    rejected: int
    reasons: Mapping[str, int] = field(default_factory=dict)


def _replay(args: Namespace) -> int:
    accept_former_day(args)
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    day = task.day_of(args.day)
    pipeline = task.render(day)
    old_state = _read_day(pipeline, day)
    if old_state is None:
        print_note(f"{task.name}: {pipeline.sink.target} has no publish of {day}. 'airflow connect run' loads it")
        return EXIT_PROBLEMS
    if not old_state.rejected:
        print_note(f"{task.name}, {day}: no rejects, so nothing to replay")
        return 0
    print_note(
        f"{task.name}, {day}: {old_state.rejected:,} rejects. Polling the day again with the DAG's present options"
    )
    try:
        move_days(task, str(day))
    except ConnectError:
        _note_unchanged_day(pipeline, day, old_state)
        raise
    new_state = _read_day(pipeline, day)
    assert new_state is not None
    _note_differences(pipeline, day, old_state, new_state)
    states = {"before": old_state, "after": new_state}
    print_rows([_state_line(when, state, args.output) for when, state in states.items()], args.output)
    return EXIT_PROBLEMS if new_state.rejected else 0


replay = command(_replay, changes=True)


def _read_day(pipeline: RenderedTask, day: Day) -> DayInSink | None:
    with pipeline.open_publisher() as publisher:
        ledger = publisher.ledger
        row = ledger.row(day.date)
        if row is None:
            return None
        _require_replayable(pipeline, day, [*ledger.days()][-1:] if pipeline.source.kind == "snapshot" else [])
        if not isinstance(publisher, KeepsRejects):
            return DayInSink(row, row.counts.get("rejected", 0))
        day_rejects = next(publisher.rejects(day.date, day.date, 0), None)
        if day_rejects is None:
            return DayInSink(row, 0)
        counts = RejectCounts.count(day_rejects)
        return DayInSink(row, counts.rejected, counts.reasons)


def _require_replayable(pipeline: RenderedTask, day: Day, newest: list[Any]) -> None:
    name = pipeline.task.name
    if pipeline.source.kind == "increment":
        raise ConfigError(
            f"task {name}: source {pipeline.source.name!r} reads increments, so a new run reads later rows. Clear the "
            f"run of {day} in Airflow, which reads its own rows again"
        )
    if newest and newest[0] > day.date:
        raise ConfigError(
            f"task {name}: source {pipeline.source.name!r} reads snapshots, and no longer has that of {day}. "
            f"Corrected records come with the next run. Replay {newest[0]}, the newest snapshot, or print the kept "
            f"records of {day} with 'airflow connect rejects show --records'"
        )
    if not pipeline.sink.reloads:
        raise ConfigError(
            f"task {name}: sink {pipeline.sink.name!r} of {pipeline.sink.target} only appends, so the rows of "
            f"{day} would be doubled. Set write_mode='replace', or load the records of 'airflow connect rejects show "
            "--records' yourself"
        )


def _note_unchanged_day(pipeline: RenderedTask, day: Day, old_state: DayInSink) -> None:
    try:
        current_state = _read_day(pipeline, day)
    except ConnectError:  # the sink itself failed
        return
    if current_state is None or current_state.row.generation != old_state.row.generation:
        return
    print_note(
        f"{pipeline.task.name}, {day}: not replaced. Generation {current_state.row.generation} stays, with "
        f"{current_state.row.rows:,} rows and {current_state.rejected:,} rejects. "
        "If the source no longer has the day, only the records of 'airflow connect rejects show --records' remain"
    )


def _note_differences(pipeline: RenderedTask, day: Day, old_state: DayInSink, new_state: DayInSink) -> None:
    day_name = f"{pipeline.task.name}, {day}"
    if pipeline.source.kind == "snapshot":
        print_note(
            f"{day_name}: the source reads snapshots. These rows are its present state, not that of the earlier load"
        )
    if _is_same_answer(old_state, new_state):
        print_note(
            f"{day_name}: the source sent the same answer, and the DAG's options have the same effect. Correct one of "
            "them first"
        )
    elif _has_same_keys(old_state, new_state):
        print_note(
            f"{day_name}: all rows have the same keys and all rejects the same reasons as before, with this source and "
            "the DAG's present options. Correct one of them first"
        )
    loss = old_state.row.rows + old_state.rejected - new_state.row.rows - new_state.rejected
    if loss > 0:
        print_note(
            f"{day_name}: rows and rejects together are {loss:,} fewer than before. The source no longer has these "
            "rows, or the DAG now leaves them out"
        )


def _is_same_answer(old_state: DayInSink, new_state: DayInSink) -> bool:
    return new_state.row.answer is not None and new_state.row.answer == old_state.row.answer


def _has_same_keys(old_state: DayInSink, new_state: DayInSink) -> bool:
    if None not in (old_state.row.answer, new_state.row.answer) or new_state.row.digest is None:
        return False
    old, new = ((state.row.digest, state.rejected, state.reasons) for state in (old_state, new_state))
    return old == new


def _state_line(when: str, state: DayInSink, output: str) -> dict[str, Any]:
    return {
        "when": when,
        "generation": state.row.generation,
        "rows": state.row.rows,
        "rejected": state.rejected,
        "reasons": format_reasons(state.reasons, output),
    }
