"""The stand-in's command line: ``python -m tests.standins.x --port 0 …``.

Prints one line with its URL once it listens, and ends with exit code 0 on SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.standins.x.access import App
from tests.standins.x.faults import Fault
from tests.standins.x.posts import Timeline
from tests.standins.x.server import StandIn


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    options = _parser().parse_args(arguments)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    with _standin(options) as standin:
        if options.port_file:
            unfinished = options.port_file.with_name(options.port_file.name + ".tmp")
            unfinished.write_text(f"{standin.port}\n")
            unfinished.replace(options.port_file)
        print(f"x-standin (made-up posts, not X) listening on {standin.url}", flush=True)
        ending.wait()
    return 0


def _standin(options: argparse.Namespace) -> StandIn:
    faults = json.loads(options.faults_file.read_text()) if options.faults_file else []
    app = App()
    if options.token_env is not None:
        if options.token_env not in os.environ:
            sys.exit(f"x-standin: the environment has no variable {options.token_env}")
        app = App(token=os.environ[options.token_env])
    timeline = Timeline(
        seed=options.seed,
        posts_per_day=options.posts_per_day,
        deleted_per_day=options.deleted_per_day,
        edited_per_day=options.edited_per_day,
        gone_references_per_day=options.gone_references_per_day,
    )
    return StandIn(timeline, faults=[Fault.from_json(fault) for fault in faults], app=app, port=options.port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="x-standin", description="A stand-in for X's post search and counts on 127.0.0.1. Not X."
    )
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--port-file", type=Path, help="file for the port, written once it listens")
    add("--token-env", help="environment variable that holds the app's bearer token")
    add("--faults-file", type=Path, help="JSON list of faults")
    add("--seed", type=int, default=0)
    add("--posts-per-day", type=int, default=200)
    add("--deleted-per-day", type=int, default=0)
    add("--edited-per-day", type=int, default=0)
    add("--gone-references-per-day", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
