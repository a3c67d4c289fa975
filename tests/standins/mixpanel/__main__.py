"""The stand-in's command line: ``python -m tests.standins.mixpanel --port 0 …``.

Prints one line with its URL once it listens, and ends with exit code 0 on SIGTERM, on SIGINT, and with
``--exit-with-parent`` when the process that started it is gone.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.standins.mixpanel.access import Account, Limits
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

_PARENT_CHECK_SECONDS = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    options = _parser().parse_args(arguments)
    parent = options.exit_with_parent or os.getppid()
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with _standin(options) as standin:
        standin.prepare(options.prepare)
        if options.port_file:
            _write_whole(options.port_file, f"{standin.port}\n")
        print(f"mixpanel-standin (made-up events, not Mixpanel) listening on {standin.url}", flush=True)
        while not ending.wait(_PARENT_CHECK_SECONDS):
            if options.exit_with_parent is not None and os.getppid() != parent:
                break
    return 0


def _standin(options: argparse.Namespace) -> StandIn:
    faults = json.loads(options.faults_file.read_text()) if options.faults_file else []
    limits = Limits(
        queries_per_hour=options.queries_per_hour,
        queries_per_second=options.queries_per_second,
        concurrent=options.concurrent,
        hour_seconds=options.hour_seconds,
        retry_after=options.retry_after,
    )
    clock: dict[str, Any] = {"now": _stopped_clock(options.now)} if options.now else {}
    return StandIn(
        Project(
            seed=options.seed,
            regime=options.regime,
            timezone=options.timezone,
            events_per_day=options.events_per_day,
            duplicates_per_day=options.duplicates_per_day,
            missing_ids_per_day=options.missing_ids_per_day,
            late_per_day=options.late_per_day,
            empty_dates=frozenset(options.empty_date),
        ),
        faults=[Fault.from_json(fault) for fault in faults],
        limits=limits,
        query_limits=limits,
        people=People(seed=options.seed, users=options.users),
        engage=Engage(page_seconds=options.page_seconds),
        account=_account(options),
        cache=options.cache,
        framing=options.framing,
        port=options.port,
        **clock,
    )


def _account(options: argparse.Namespace) -> Account:
    """Read secrets from the environment, by the names given: arguments can be seen by everyone on the machine."""
    secret = _secret(options.secret_env)
    project_secret = _secret(options.project_secret_env)
    secret_argument = {"secret": secret} if secret is not None else {}
    return Account(
        project_id=options.project_id,
        username=options.username,
        project_secret=project_secret,
        access=options.access,
        **secret_argument,
    )


def _secret(variable: str | None) -> str | None:
    if variable is None:
        return None
    if variable not in os.environ:
        sys.exit(f"mixpanel-standin: the environment has no variable {variable}")
    return os.environ[variable]


def _stopped_clock(instant: dt.datetime) -> Callable[[], dt.datetime]:
    return lambda: instant


def _instant(text: str) -> dt.datetime:
    instant = dt.datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise argparse.ArgumentTypeError("an instant needs a UTC offset, such as 2026-11-05T12:00:00Z")
    return instant


def _write_whole(path: Path, text: str) -> None:
    """Write a file whole: a reader that waits for it finds all of it."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text)
    unfinished.replace(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mixpanel-standin",
        description="A stand-in for Mixpanel's export and Query APIs on 127.0.0.1. Not Mixpanel.",
    )
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--port-file", type=Path, help="file for the port, written once it listens")
    add(
        "--exit-with-parent",
        type=int,
        nargs="?",
        const=0,
        metavar="PID",
        help="end when the parent process is gone; with its id, even if it was gone before the start",
    )
    add("--cache", type=Path, help="folder that keeps compressed days for later runs")
    add("--prepare", type=dt.date.fromisoformat, nargs="*", default=[], help="days to make before it listens")
    add("--now", type=_instant, help="stop the clock at this instant")
    add("--framing", choices=("chunked", "length"), default="chunked")
    add("--faults-file", type=Path, help="JSON list of faults")

    add("--seed", type=int, default=0)
    add("--regime", choices=("utc", "project_local"), default="utc")
    add("--timezone", default="UTC")
    add("--events-per-day", type=int, default=1000)
    add("--duplicates-per-day", type=int, default=0)
    add("--missing-ids-per-day", type=int, default=0)
    add("--late-per-day", type=int, default=0)
    add("--users", type=int, default=People.users, help="how many have a profile")
    add("--page-seconds", type=float, default=0.0, help="how long a page of profiles takes")
    add("--empty-date", type=dt.date.fromisoformat, nargs="*", default=[])

    add("--project-id", type=int, default=Account.project_id)
    add("--username", default=Account.username)
    add("--secret-env", metavar="NAME", help="environment variable with the service account's secret")
    add("--project-secret-env", metavar="NAME", help="environment variable with the project secret")
    add("--access", choices=("full", "no_plan", "no_query_plan", "no_role", "other_region"), default="full")

    add("--queries-per-hour", type=int)
    add("--queries-per-second", type=int)
    add("--concurrent", type=int)
    add("--hour-seconds", type=float, default=3600.0, help="how long an hour takes")
    add("--retry-after", help="'seconds', 'http-date', or any text to send as it is")
    return parser


if __name__ == "__main__":
    sys.exit(main())
