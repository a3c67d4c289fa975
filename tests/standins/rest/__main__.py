"""The stand-in's command line: ``python -m tests.standins.rest --key-env NAME …``.

Prints one line with its URL once it listens, and ends with exit code 0 on SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.standins.rest.events import Ledger
from tests.standins.rest.server import StandIn


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    options = _parser().parse_args(arguments)
    if options.key_env not in os.environ:
        sys.exit(f"rest-standin: the environment has no variable {options.key_env}")
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    ledger = Ledger(seed=options.seed, events_per_day=options.events_per_day)
    key = os.environ[options.key_env]
    with StandIn(ledger, key=key, busy_every=options.busy_every, port=options.port) as standin:
        if options.port_file:
            unfinished = options.port_file.with_name(options.port_file.name + ".tmp")
            unfinished.write_text(f"{standin.port}\n")
            unfinished.replace(options.port_file)
        print(f"rest-standin (made-up events, not Stripe) listening on {standin.url}", flush=True)
        ending.wait()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rest-standin", description="A stand-in for an API of the shape of Stripe's events on 127.0.0.1."
    )
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--port-file", type=Path, help="file for the port, written once it listens")
    add("--key-env", required=True, help="environment variable that holds the API key")
    add("--seed", type=int, default=0)
    add("--events-per-day", type=int, default=2000)
    add("--busy-every", type=int, default=0, help="one request in so many is answered with 429")
    return parser


if __name__ == "__main__":
    sys.exit(main())
