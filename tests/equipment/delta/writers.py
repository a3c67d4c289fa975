"""Concurrent writers of one Delta table; run as a script, this file runs some of them as threads."""

from __future__ import annotations

import datetime as dt
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_provider_connect.errors import OvertakenError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks.delta import DeltaSink
from tests.equipment.frozen import KEY, MONDAY, SCHEMA, events, freeze
from tests.equipment.processes import at_once


def publish(sink: DeltaSink, day: dt.date, number: int) -> LedgerRow:
    """Do as the driver does: look, freeze, publish, and poll again for each other intent that published meanwhile."""
    overtaken_by: set[str] = set()
    root: Any = sink.path
    while True:
        seen = seen_publish(sink.open(KEY, {}).ledger.newest(day, "day"))
        rows = events(*(f"{number}-{i}" for i in range(number)))
        frozen = freeze(root, day, rows, order=number, attempt=f"1{'r' * len(overtaken_by)}", seen=seen)
        try:
            return sink.open(KEY, {}).commit(frozen, None, [])
        except OvertakenError as error:
            if error.by in overtaken_by:
                raise
            overtaken_by.add(error.by)


def main(path: str, mode: str, numbers: list[int]) -> None:
    """Run some writers, all at once, and print day, generation and writer of what each published.

    :param mode: "own" for a different day for each writer, "one" for one day that all load.
    """
    print("ready", flush=True)
    sys.stdin.readline()

    def write(number: int) -> None:
        sink = DeltaSink(path=path)
        assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
        day = MONDAY + dt.timedelta(days=number if mode == "own" else 0)
        row = publish(sink, day, number)
        print(json.dumps([str(day), row.generation, number]), flush=True)

    with ThreadPoolExecutor(len(numbers)) as pool:
        for _ in pool.map(write, numbers):
            pass


def run(path: str, mode: str, writers: int, processes: int = 4) -> list[list[Any]]:
    """Run writers in a few processes, and return day, generation and writer of everything they published."""
    command = [sys.executable, "-W", "error", __file__, path, mode]
    processes = min(writers, processes)
    shares = [[str(n) for n in range(1 + i, 1 + writers, processes)] for i in range(processes)]
    with at_once([[*command, *share] for share in shares]) as running:
        lines = [line for process in running if process.stdout for line in process.stdout]
        assert [process.wait() for process in running] == [0] * processes
    return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(number) for number in sys.argv[3:]])
