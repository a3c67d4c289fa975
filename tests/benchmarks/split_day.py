"""A large day in four exports against one: ``python tests/benchmarks/split_day.py``.

A vendor's export comes as fast as its server sends one stream. The stand-in sends each at ``--stream-mb`` MB/s as they
come over the wire, compressed, so that the figures tell what several streams are worth, not how fast this machine is.
The rounds alternate. Each is a whole spark-submit into a new Delta table; the count that decides the cut is part of it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import urllib.request
from pathlib import Path

from day import DAYS, Bench, Task, show, standin

_PIECES_A_SECOND = 20
_PARTS = 4


def pace(url: str, megabytes: float) -> None:
    """Let the stand-in send each export at so many MB/s."""
    fault = {"kind": "slow", "times": None, "seconds": 1 / _PIECES_A_SECOND}
    fault["size_bytes"] = int(megabytes * 1e6 / _PIECES_A_SECOND)
    body = json.dumps([fault] if megabytes else []).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/_standin/faults", body)) as answer:
        answer.read()


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000, help="events of the day")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stream-mb", type=float, default=1.0, help="MB/s of one export; 0 is as fast as can be")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    split = {"split_rows": -(-options.events // _PARTS)}
    with tempfile.TemporaryDirectory() as folder, standin(options.events, DAYS[:1], options.cache) as url:
        bench = Bench(url, Path(folder))
        bench.master = f"local[{_PARTS}]"  # the parts wait for the server, not for a core
        # This one makes the parts and their counts, and the class-data archive.
        bench.task(DAYS[:1], **split, read_timeout_seconds=3600)
        pace(url, options.stream_mb)
        pairs: list[tuple[Task, Task]] = []
        for _ in range(options.rounds):
            pairs.append((bench.task(DAYS[:1]), bench.task(DAYS[:1], **split)))
    for name, tasks in (("one export", [one for one, _ in pairs]), (f"{_PARTS} exports", [four for _, four in pairs])):
        show(f"{options.events:,} events, {name}, whole task", [task.seconds for task in tasks], "s")
        show("  of which moving the day", [task.work_seconds for task in tasks], "s")
        show("  CPU of all its processes", [task.cpu_seconds for task in tasks], "s")
        show("  peak memory of a Python process", [task.peak_mb for task in tasks], "MB")
    show("the moving, several exports to one", [four.work_seconds / one.work_seconds for one, four in pairs], "x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
