"""Prints what a day costs that survives a power cut: ``python tests/benchmarks/delta_sync.py [folder]``."""

from __future__ import annotations

import datetime as dt
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, attempt_folder, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

KEY = StreamKey(connector="benchmark", stream="sync")
SCHEMA = pa.schema([("event", pa.string())])
DAYS, FILES, FILE_BYTES = 10, 4, 8_000_000


def publish(sink: DeltaSink, date: dt.date, batch: pa.RecordBatch) -> float:
    """Freeze and publish a day; return how long it took."""
    started = time.perf_counter()
    folder, day, attempt = Folder(sink.path), Day(date=date), f"a-{date}"
    files = []
    for part in range(FILES):
        with RowWriter(folder, data_file(day, attempt, part, "0"), SCHEMA) as writer:
            writer.write(batch)
        assert writer.file is not None
        files.append(writer.file)
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=PollResult(files=tuple(files)))
    name = f"{attempt_folder(attempt)}/manifest.json"
    folder.write(name, manifest.model_dump_json().encode(), durable=True)
    intent = Intent(token=str(date), run="benchmark")
    sink.open(KEY, {}).commit(
        Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=sink.path), None, []
    )
    return time.perf_counter() - started


def main(parent: str | None) -> None:
    """Publish days into two tables by turns, one with and one without bringing them to the disk."""
    fsync, calls = os.fsync, [0]

    def counted(descriptor: int) -> None:
        calls[0] += 1
        fsync(descriptor)

    ways: dict[str, Callable[[int], None]] = {"with": counted, "without": lambda _: None}
    batch = pa.record_batch([pa.array([os.urandom(500).hex() for _ in range(FILE_BYTES // 1000)])], schema=SCHEMA)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        sinks = {name: DeltaSink(path=str(Path(folder) / name)) for name in ways}
        for sink in sinks.values():
            assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for i in range(DAYS):
            for name, sync in ways.items():
                os.fsync = sync  # type: ignore[assignment]
                seconds[name].append(publish(sinks[name], dt.date(2026, 10, 5) + i * ONE_DAY, batch))
        os.fsync = fsync
    medians = {name: statistics.median(times) * 1000 for name, times in seconds.items()}
    print(f"a day of {FILES} files of {FILE_BYTES / 1e6:.0f} MB, median of {DAYS}, from its rows to published:")
    print(f"  {medians['with']:.0f} ms with fsync ({calls[0] / DAYS:.0f} calls), {medians['without']:.0f} ms without")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
