"""Cost of a Delta table's ledger as its history grows: ``python tests/benchmarks/delta_days.py [--days N …]``.

History is written as one commit that repeats the files and transaction identifiers of a real one for each day. The log
then gets a checkpoint, and its commits are removed, as Delta's own clean-up does.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from day import show
from deltalake import DeltaTable

from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

KEY = StreamKey(connector="benchmark", stream="days")
SCHEMA = pa.schema([("event", pa.string())])
MODEL = dt.date(1980, 1, 1)
"""The day that history repeats."""
NEWEST = dt.date(2026, 1, 1)


def publish(sink: DeltaSink, date: dt.date) -> float:
    """Freeze and publish a day of one row. Return the seconds of its commit."""
    day, attempt = Day(date=date), f"a-{date}"
    with RowWriter(Folder(sink.path), data_file(day, attempt, 0, "0"), SCHEMA) as writer:
        writer.write(pa.record_batch([pa.array(["a"])], schema=SCHEMA))
    assert writer.file is not None
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=PollResult(files=(writer.file,)))
    intent = Intent(token=str(date), run="benchmark")
    publish = Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=sink.path)
    started = time.perf_counter()
    sink.open(KEY, {}).commit(publish, None, [])
    return time.perf_counter() - started


def grow(table: DeltaTable, dates: list[dt.date]) -> None:
    """Append a commit with what the model's commit holds for each date, and leave a cleaned log."""
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log"
    model = [line for line in (log / f"{1:020}.json").read_text().splitlines() if '"commitInfo"' not in line]
    lines = [line.replace(str(MODEL), str(date)) for date in dates for line in model]
    info = {"commitInfo": {"operation": "WRITE", "timestamp": int(time.time() * 1000)}}
    (log / f"{table.version() + 1:020}.json").write_text("\n".join([json.dumps(info), *lines]))
    table.update_incremental()
    table.create_checkpoint()
    for commit in log.glob("*.json"):
        if commit.name != f"{1:020}.json" and int(commit.stem) < table.version():
            commit.unlink()


def seconds_of(ask: Callable[[], object], rounds: int) -> list[float]:
    """Return the seconds of each round."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        ask()
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> int:
    """Let the table grow, and time what each task asks and does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, nargs="+", default=[1, 365, 3_650, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sink = DeltaSink(path=str(Path(folder) / "table"))
        assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
        publish(sink, MODEL)
        count, newest = 1, NEWEST
        for size in options.days:
            if size > count:
                grow(DeltaTable(sink.path), [MODEL + ONE_DAY * number for number in range(count, size)])
                count = size
            assert len(sink.open(KEY, {}).ledger.days()) >= count
            print(f"{count:,} days:")
            questions: dict[str, Callable[[], object]] = {
                "preflight": lambda: sink.open(KEY, {}).preflight(SCHEMA, (), "day"),
                "days of the ledger": lambda: len(sink.open(KEY, {}).ledger.days()),
                "row of the first day": lambda: sink.open(KEY, {}).ledger.row(MODEL),
            }
            for name, ask in questions.items():
                show(f"  {name}", [value * 1000 for value in seconds_of(ask, options.rounds)], "ms")
            commits = []
            for _ in range(options.rounds):
                newest += ONE_DAY
                commits.append(publish(sink, newest) * 1000)
            show("  commit of a further day", commits, "ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
