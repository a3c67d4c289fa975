"""Writes down what every test costs: ``CONNECT_TEST_COSTS=costs.jsonl pytest -p tests.equipment.costs …``.

A line for each test has its wall time, and the CPU of this process and of all that it started: those that have ended,
and those that still run, as a server of the session does. ``python -m tests.equipment.costs costs.jsonl`` sums it up by
file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


def spent() -> float:
    """Return the CPU seconds of this process, of its children, and of their children."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began, before = time.monotonic(), spent()
    try:
        return (yield)
    finally:
        line = {"test": item.nodeid, "wall": time.monotonic() - began, "cpu": spent() - before}
        with Path(os.environ["CONNECT_TEST_COSTS"]).open("a", encoding="utf-8") as costs:
            costs.write(json.dumps(line) + "\n")


def main(path: str) -> None:
    """Print the sums of each file, dearest first."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0])
    for line in map(json.loads, Path(path).read_text(encoding="utf-8").splitlines()):
        for file in (line["test"].partition("::")[0], "all"):
            sums[file] = [a + b for a, b in zip(sums[file], (1, line["wall"], line["cpu"]), strict=True)]
    for file, (tests, wall, cpu) in sorted(sums.items(), key=lambda each: -each[1][2]):
        print(f"{cpu:8.1f} CPU s {wall:8.1f} s {tests:5.0f} tests  {file}")


if __name__ == "__main__":
    main(sys.argv[1])
