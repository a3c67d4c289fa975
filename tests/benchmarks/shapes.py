"""A day polled through eight shapes against the same day without: ``python tests/benchmarks/shapes.py``.

The day is Mixpanel's, as in ``day.py``: events of 836 B from the stand-in. The rounds alternate, each poll in a process
of its own that has imported everything; then each shape is run alone over the batches of the day in memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from day import DAYS, SOURCE, Bench, show, standin, warm_up

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.window import Day

KEY = Connection(conn_id="key", password="0123456789abcdef" * 2)
SHAPES: list[dict[str, Any]] = [
    {"filter": {"where": {"column": "event", "operator": "equals", "value": "$identify", "negate": True}}},
    {
        "extract": {
            "column": "properties",
            "into": {
                "os": {"type": "STRING", "at": "$os"},
                "city": {"type": "STRING", "at": "$city"},
                "height": {"type": "BIGINT", "at": "$screen_height"},
            },
        }
    },
    {"mask": {"columns": ["distinct_id"], "conn_id": "key"}},
    {"mask": {"columns": ["insert_id"], "mode": "truncate", "keep_characters": 8}},
    {"rename": {"columns": {"distinct_id": "person", "time": "happened_at"}}},
    {"cast": {"columns": {"height": "STRING", "processing_time": "DATE"}, "on_error": "null"}},
    {"constant": {"column": "origin", "value": "mixpanel"}},
    {
        "route": {
            "column": "table",
            "cases": [{"to": "pages", "when": {"column": "event", "operator": "matches", "value": ".*[Pp]age.*"}}],
            "default": "events",
        }
    },
]


NO_DOCUMENTS = [
    {"constant": {"column": "height", "type": "BIGINT", "value": 900}} if "extract" in one else one for one in SHAPES
]
"""The same, but that none reads the JSON documents once more."""


def poll(connection: Connection, stage: str, shapes: list[dict[str, Any]]) -> tuple[float, float]:
    """Poll and stage the day through shapes; return the seconds, and those of CPU."""
    from airflow_provider_connect.polling.tally import Tally
    from airflow_provider_connect.spark.poll import PollTask, stage_partition_once
    from airflow_provider_connect.stage.storage import Folder

    Path(stage).mkdir()
    with MixpanelSource.from_options(SOURCE).open(connection, PollContext()) as poller:
        (part,) = poller.plan([Day(date=DAYS[0])])
        task = PollTask(
            source_name="mixpanel", source=SOURCE, part=part, root=stage, attempts=("a-1",), progress_seconds=5
        )
        shaping, tally = Shaping.of(Chain.of(shapes), {"key": KEY}), Tally(part.days)
        cpu, started = time.process_time(), time.perf_counter()
        stage_partition_once(poller, Folder(stage), task, poller.schema(), shaping=shaping, tally=tally, retry_notes=[])
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    shutil.rmtree(stage)
    return seconds, cpu


def in_new_process(function: Any, *arguments: Any) -> Any:
    """Run a function in a process of its own that has imported everything."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(warm_up)
        return pool.apply(function, arguments)


def each_alone(connection: Connection) -> dict[str, float]:
    """Return the CPU seconds of each shape over the whole day in memory."""
    from airflow_provider_connect.polling.tally import Tally

    with MixpanelSource.from_options(SOURCE).open(connection, PollContext()) as poller:
        (part,) = poller.plan([Day(date=DAYS[0])])
        schema = poller.schema()
        batches = [batch for _, batch in poller.poll(part, Tally(part.days))]
    seconds = {}
    for index, one in enumerate(SHAPES):
        chain = Chain.of([one])
        change = chain.bind(schema, {"key": KEY})
        started = time.process_time()
        batches = [change(batch, Counter()) for batch in batches]
        seconds[f"{index} {next(iter(one))}"] = time.process_time() - started
        schema = chain.result_schema(schema)
    return seconds


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="events of the day")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made day"
    )
    options = parser.parse_args()
    plain, through, columns = [], [], []
    with tempfile.TemporaryDirectory() as folder, standin(options.events, DAYS[:1], options.cache) as url:
        connection = Bench(url, Path(folder)).connection
        for number in range(options.rounds):
            plain.append(in_new_process(poll, connection, f"{folder}/plain-{number}", []))
            through.append(in_new_process(poll, connection, f"{folder}/through-{number}", SHAPES))
            columns.append(in_new_process(poll, connection, f"{folder}/columns-{number}", NO_DOCUMENTS))
        alone = [in_new_process(each_alone, connection) for _ in range(options.rounds)]
    pairs = list(zip(plain, through, strict=True))
    show(f"poll and stage {options.events:,} events", [one for one, _ in plain], "s")
    show(f"  through {len(SHAPES)} shapes", [one for one, _ in through], "s")
    show("  as a ratio", [shaped[0] / bare[0] for bare, shaped in pairs], "x")
    show(
        "  without the one that reads documents",
        [shaped[0] / bare[0] for bare, shaped in zip(plain, columns, strict=True)],
        "x",
    )
    show("  CPU without", [cpu for _, cpu in plain], "s")
    show("  CPU, as a ratio", [shaped[1] / bare[1] for bare, shaped in pairs], "x")
    for name in alone[0]:
        show(f"  shape {name}, CPU alone", [one[name] for one in alone], "s")
    print(f"all shapes alone, CPU: {sum(statistics.median(one[name] for one in alone) for name in alone[0]):.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
