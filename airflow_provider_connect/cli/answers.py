"""``airflow connect accept`` (accepts changed options) and ``resume`` (answers an alarm about lost rows)."""

from __future__ import annotations

import getpass
import socket
from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.cli.tasks import RenderedTask, connect_task, open_source
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, ask_consent, command, print_note, print_rows
from airflow_provider_connect.definition import compare_definitions
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.operators.declared_options import DeclaredOptions
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.sink import Connections, Publisher
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.notes import (
    Acceptance,
    Resumption,
    acceptance_note,
    count_answers,
    definitions_by_digest,
    newest_alarm,
    resumption_note,
)


@partial(command, changes=True)
def accept(args: Namespace) -> int:
    """Print the options changed since the newest publish, prompt, and write the acceptance into the ledger."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.render(task.parse_day(None))
    connections = pipeline.resolve_connections()
    with pipeline.open_publisher(connections) as publisher:
        return _accept(args, pipeline, publisher, present_definition(pipeline, connections))


def _accept(args: Namespace, pipeline: RenderedTask, publisher: Publisher, present: StreamDefinition) -> int:
    old_definition = published_definition(pipeline, publisher)
    if old_definition is None:
        print_note(
            f"{pipeline.task.name}: no published day in {pipeline.sink.target} has a definition. Nothing to accept"
        )
        return 0
    present = present.model_copy(update={"key": old_definition.key})  # only a run reads it from the source
    comparison = compare_definitions(old_definition, present, is_same_task=False, identifies_by_key=False)
    if not comparison.acceptable:
        print_note(f"{pipeline.task.name}: a run would refuse no change. Nothing to accept")
        return 0
    print_rows([{"task": pipeline.task.name, "change": change} for change in comparison.acceptable], args.output)
    if not args.yes and not ask_consent("Published days stay as they are. Accept the change for later loads?"):
        print_note("Nothing was changed")
        return EXIT_PROBLEMS
    acceptance = Acceptance(published=old_definition.digest, accepted=present.options_digest)
    assert isinstance(publisher, KeepsNotes)  # it has a published definition
    publisher.note(acceptance_note(acceptance, person_name()))
    print_note(f"{pipeline.task.name}: accepted. The task's next run loads with the DAG's present options")
    return 0


def present_definition(pipeline: RenderedTask, connections: Connections) -> StreamDefinition:
    """Build a stream's definition from the DAG's present options, without the record key, which only a run reads."""
    declared_options = DeclaredOptions(*pipeline.task.declared_options)
    return declared_options.build_definition(pipeline.source, pipeline.sink, pipeline.chain, connections)


def published_definition(pipeline: RenderedTask, publisher: Publisher) -> StreamDefinition | None:
    """Return the definition of the newest publish, if any.

    :raises ConfigError: it is missing.
    """
    if not isinstance(publisher, KeepsNotes):
        raise ConfigError(f"sink {pipeline.sink.name!r} keeps no definitions, so options cannot be compared")
    in_force = publisher.ledger.definition_in_force()
    if in_force is None:
        return None
    definitions = definitions_by_digest(publisher.ledger.notes())
    if in_force.digest not in definitions:
        raise ConfigError(
            f"{pipeline.sink.target}: the ledger names the definition {in_force.digest}, but its note is missing. "
            "Restore the notes, or load into a new target"
        )
    return definitions[in_force.digest]


def person_name() -> str:
    """Return host and user of this command, in the form of a run's name."""
    return f"cli/{socket.gethostname()}/{getpass.getuser()}"


_NOW = "now"


@partial(command, changes=True)
def resume(args: Namespace) -> int:
    """Print the newest alarm about lost rows, prompt, and write the position of the next read into the ledger."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.render(task.parse_day(None))
    if pipeline.source.kind != "increment":
        raise ConfigError(f"task {task.name} follows no table. Use a backfill to load its days again")
    connections = pipeline.resolve_connections()
    with pipeline.open_publisher(connections) as publisher:
        notes = publisher.ledger.notes()
        alarm = newest_alarm(notes)
        if alarm is None or not isinstance(publisher, KeepsNotes):
            print_note(f"{task.name}: the ledger has no alarm. Nothing to answer")
            return 0
        position = _position_of(pipeline, connections, getattr(args, "from"))
        print_rows(
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
        if not args.yes and not ask_consent("Unread rows up to that position will never be loaded. Continue?"):
            print_note("Nothing was changed")
            return EXIT_PROBLEMS
        answer = Resumption(alarm=alarm.id, position=position, answers_before=count_answers(notes, alarm))
        publisher.note(resumption_note(answer, person_name()))
    print_note(f"{task.name}: the task's next run reads the rows after {position}")
    return 0


def _position_of(pipeline: RenderedTask, connections: Connections, text: str) -> str:
    day = pipeline.task.parse_day(None)
    with open_source(pipeline.source, connections[pipeline.source.conn_id]) as poller:
        poller.schema()
        follower = require_capability(poller, Follows, "its rows are increments")
        return follower.follow(day, None, None) if text == _NOW else follower.follow(day, text, text)
