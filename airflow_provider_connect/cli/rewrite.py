"""``airflow connect rewrite``: writes a sink's table once by key."""

from __future__ import annotations

from argparse import Namespace
from functools import partial

from airflow_provider_connect.capabilities.publisher import RewritesByKey
from airflow_provider_connect.cli.tasks import connect_task
from airflow_provider_connect.cli.terminal import EXIT_PROBLEMS, ask_consent, command, print_note, print_rows
from airflow_provider_connect.errors import ConfigError


@partial(command, changes=True)
def rewrite(args: Namespace) -> int:
    """Prompt, keep the newest row of each key, and print the number of rows before and after."""
    task = connect_task(args.dag_id, args.task_id, args.bundle_name)
    pipeline = task.render(task.parse_day(None))
    with pipeline.open_publisher() as publisher:
        if not isinstance(publisher, RewritesByKey):
            raise ConfigError(f"{type(pipeline.sink).__name__} cannot rewrite {pipeline.sink.target} by key")
        if not args.yes and not ask_consent(f"Keep only the newest row of each key in {pipeline.sink.target}?"):
            print_note("Nothing was changed")
            return EXIT_PROBLEMS
        rows = publisher.rewrite_by_key()
    line = {"task": task.name, "target": pipeline.sink.target, "rows_before": rows.before, "rows": rows.after}
    print_rows([line], args.output)
    return 0
