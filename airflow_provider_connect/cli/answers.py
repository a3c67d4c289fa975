"""``airflow connect accept`` and ``resume``: a person answers what stands in a stream's way.

A changed definition is accepted; an alarm about lost rows gets the position where the stream goes on.
"""

from __future__ import annotations

import getpass
import socket
from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.cli.tasks import Pipeline, connect_task, opened
from airflow_provider_connect.cli.terminal import PROBLEMS, agreed, command, note, show
from airflow_provider_connect.definition import compare
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.written import Written
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.sink import Connections, Publisher
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Resumption,
    acceptance_note,
    answers_before,
    definitions_in,
    newest_alarm,
    resumption_note,
)


@partial(command, changes=True)
def accept(args: Namespace) -> int:
    """Show the changes since the newest publish, and note in the ledger that they are accepted."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.rendered(task.day(None))
    connections = pipeline.connections()
    with pipeline.publisher(connections) as publisher:
        return _accept(args, pipeline, publisher, present_definition(pipeline, connections))


def _accept(args: Namespace, pipeline: Pipeline, publisher: Publisher, present: StreamDefinition) -> int:
    published = published_definition(pipeline, publisher)
    if published is None:
        note(f"{pipeline.task.name}: no published day in {pipeline.sink.target} has a definition. Nothing to accept")
        return 0
    present = present.model_copy(update={"key": published.key})  # only a run asks the source for it
    comparison = compare(published, present, is_same_task=False, identifies_by_key=False)
    if not comparison.acceptable:
        note(f"{pipeline.task.name}: a run would refuse no change. Nothing to accept")
        return 0
    show([{"task": pipeline.task.name, "change": change} for change in comparison.acceptable], args.output)
    if not args.yes and not agreed("Published days stay as they are. Accept the change for later loads?"):
        note("Nothing was changed")
        return PROBLEMS
    acceptance = Acceptance(published=published.digest, accepted=present.options_digest)
    assert isinstance(publisher, KeepsNotes)  # it has a published definition
    publisher.note(acceptance_note(acceptance, person()))
    note(f"{pipeline.task.name}: accepted. The task's next run loads with the DAG's present options")
    return 0


def present_definition(pipeline: Pipeline, connections: Connections) -> StreamDefinition:
    """Return the definition of a task's stream by the DAG's present options, without the resolved key."""
    written = Written(*pipeline.task.declared().as_written)
    return written.definition(pipeline.source, pipeline.sink, pipeline.chain, connections)


def published_definition(pipeline: Pipeline, publisher: Publisher) -> StreamDefinition | None:
    """Return the definition in force; None if there is none.

    :raises ConfigError: the sink keeps no definitions, or the definition's note is missing.
    """
    if not isinstance(publisher, KeepsNotes):
        raise ConfigError(f"sink {pipeline.sink.name!r} keeps no definitions, so options cannot be compared")
    in_force = publisher.ledger.definition_in_force()
    if in_force is None:
        return None
    definitions = definitions_in(publisher.ledger.notes())
    if in_force.digest not in definitions:
        raise ConfigError(
            f"{pipeline.sink.target}: the ledger names the definition {in_force.digest}, but its note is missing. "
            "Restore the notes, or load into a new target"
        )
    return definitions[in_force.digest]


def person() -> str:
    """Return who runs this command, in the form of a run's name."""
    return f"cli/{socket.gethostname()}/{getpass.getuser()}"


_NOW = "now"


@partial(command, changes=True)
def resume(args: Namespace) -> int:
    """Show the newest alarm, and note in the ledger the position where the stream goes on."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.rendered(task.day(None))
    if pipeline.source.kind != "increment":
        raise ConfigError(f"task {task.name} follows no table. Use a backfill to load its days again")
    connections = pipeline.connections()
    with pipeline.publisher(connections) as publisher:
        notes = publisher.ledger.notes()
        alarm = newest_alarm(notes)
        if alarm is None or not isinstance(publisher, KeepsNotes):
            note(f"{task.name}: the ledger has no alarm. Nothing to answer")
            return 0
        position = _position_of(pipeline, connections, getattr(args, "from"))
        show(
            [
                {
                    "task": task.name,
                    "increment": alarm.number,
                    "read_up_to": alarm.position,
                    "goes_on_behind": position,
                    "reason": alarm.reason,
                }
            ],
            args.output,
        )
        if not args.yes and not agreed("Unread rows up to that position will never be loaded. Go on?"):
            note("Nothing was changed")
            return PROBLEMS
        answer = Resumption(alarm=alarm.id, position=position, answers_before=answers_before(notes, alarm))
        publisher.note(resumption_note(answer, person()))
    note(f"{task.name}: the task's next run reads the rows after {position}")
    return 0


def _position_of(pipeline: Pipeline, connections: Connections, text: str) -> str:
    """Return the given position, or the source's present one for ``now``.

    :raises ConfigError: the text is not a position of this source.
    """
    day = pipeline.task.day(None)
    with opened(pipeline.source, connections[pipeline.source.conn_id]) as poller:
        poller.schema()
        follower = require_capability(poller, Follows, "its rows are increments")
        return follower.follow(day, None, None) if text == _NOW else follower.follow(day, text, text)
