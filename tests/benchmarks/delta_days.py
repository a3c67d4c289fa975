"""Prints what the ledger of a Delta table costs whose days lie far apart: ``python tests/benchmarks/delta_days.py``."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

KEY = StreamKey(connector="benchmark", stream="days")
SCHEMA = pa.schema([("event", pa.string())])
DATES = [dt.date(2015, 1, 1), *(dt.date(2026, 1, 1) + i * ONE_DAY for i in range(25))]


def publish(sink: DeltaSink, date: dt.date) -> None:
    """Freeze and publish a day of one row."""
    day, attempt = Day(date=date), f"a-{date}"
    with RowWriter(Folder(sink.path), data_file(day, attempt, 0, "0"), SCHEMA) as writer:
        writer.write(pa.record_batch([pa.array(["a"])], schema=SCHEMA))
    assert writer.file is not None
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=PollResult(files=(writer.file,)))
    intent = Intent(token=str(date), run="benchmark")
    publish = Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=sink.path)
    sink.open(KEY, {}).commit(publish, None, [])


def main() -> None:
    """Publish days eleven years apart; time the questions that each task asks."""
    with tempfile.TemporaryDirectory() as folder:
        sink = DeltaSink(path=str(Path(folder) / "table"))
        assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
        started = time.perf_counter()
        for date in DATES:
            publish(sink, date)
        print(f"a commit: {(time.perf_counter() - started) / len(DATES) * 1000:.0f} ms, mean of {len(DATES)}")
        ledger = sink.open(KEY, {}).ledger
        questions: dict[str, Callable[[], object]] = {
            "days()": ledger.days,
            "newest()": lambda: ledger.newest(DATES[0], "day"),
            "preflight()": lambda: sink.open(KEY, {}).preflight(SCHEMA, (), "day"),
        }
        for state in ("a log with all its commits", "a cleaned log"):
            if state == "a cleaned log":
                table = DeltaTable(sink.path)
                table.create_checkpoint()
                for commit in (Path(sink.path) / "_delta_log").glob("*.json"):
                    if int(commit.stem) < table.version():
                        commit.unlink()
            for name, ask in questions.items():
                started = time.perf_counter()
                ask()
                print(f"{name} of {state}: {(time.perf_counter() - started) * 1000:.0f} ms")
        assert DATES[0] in ledger.days()


if __name__ == "__main__":
    main()
