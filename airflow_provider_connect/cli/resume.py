"""``airflow connect resume``: the answer to an alarm about lost rows."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.poller import Follows
from airflow_provider_connect.capabilities.publisher import KeepsNotes
from airflow_provider_connect.cli.accept import person
from airflow_provider_connect.cli.ending import PROBLEMS, command
from airflow_provider_connect.cli.printing import agreed, note, show
from airflow_provider_connect.cli.tasks import Pipeline, connect_task, opened
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.stage.notes import Resumption, answers_before, newest_alarm, resumption_note

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
        position = _position(pipeline, connections, getattr(args, "from"))
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


def _position(pipeline: Pipeline, connections: Connections, text: str) -> str:
    """Return the given position, or the source's present one for ``now``.

    :raises ConfigError: the text is not a position of this source.
    """
    day = pipeline.task.day(None)
    with opened(pipeline.source, connections[pipeline.source.conn_id]) as poller:
        poller.schema()
        follower = require_capability(poller, Follows, "its rows are increments")
        return follower.follow(day, None, None) if text == _NOW else follower.follow(day, text, text)
