"""Merges 10,000 keys into a Delta table, with the sink and with delta-rs' own merge: wall time and peak memory.

``python tests/benchmarks/delta_merge.py [rows]``. Each merge runs in its own process, on its own copy of the table.
Half of a row's bytes do not compress. The keys are random, so that every file holds some.
"""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY, Day

KEY = StreamKey(connector="benchmark", stream="merge")
SCHEMA = pa.schema([("id", pa.int64()), ("updated_at", pa.int64()), ("noise", pa.binary(110)), ("text", pa.string())])
DAYS, STAGED_KEYS = 10, 10_000
FIRST = dt.date(2026, 5, 1)
LAST = FIRST + DAYS * ONE_DAY
_BATCH_ROWS = 20_000


def rows_of(ids: np.ndarray, version: int) -> pa.RecordBatch:
    """Return rows of about 230 bytes."""
    noise = np.random.default_rng(version + int(ids[0])).bytes(110 * len(ids))
    text = pa.array([f"customer {i} of a shop that sells books, and much else besides, " + "x" * 40 for i in ids])
    arrays = [pa.array(ids), pa.array(np.full(len(ids), version)), _binary(noise, len(ids)), text]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _binary(data: bytes, rows: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(len(data) // rows), rows, [None, pa.py_buffer(data)])


def sink_of(path: str) -> DeltaSink:
    return DeltaSink(path=path, write_mode="merge", key=("id",), newest_by="updated_at")


def publish(path: str, date: dt.date, batches: list[np.ndarray], version: int) -> float:
    """Stage a day and merge it. Returns the seconds of the merge."""
    sink, day, attempt = sink_of(path), Day(date=date), f"a-{date}"
    ledger = sink.open(KEY, {}).ledger
    with RowWriter(Folder(path), data_file(day, attempt, 0, "0"), SCHEMA) as writer:
        for ids in batches:
            writer.write(rows_of(ids, version))
    assert writer.file is not None
    polled = PollResult(files=(writer.file,), rows_written=writer.file.rows)
    seen = seen_publish(ledger.newest(date, "day"))
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled, seen=seen)
    intent = Intent(token=f"{date}", run="benchmark")
    started = time.perf_counter()
    sink.open(KEY, {}).commit(
        Publish(key=KEY, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=path), None, []
    )
    return time.perf_counter() - started


def keys(rows: int) -> np.ndarray:
    """Return the merged keys: nine of ten are in the table."""
    old = np.random.default_rng(7).choice(rows, STAGED_KEYS * 9 // 10, replace=False)
    return np.concatenate([old, np.arange(rows, rows + STAGED_KEYS // 10)])


def make(path: str, rows: int) -> None:
    """Fill a table, a day at a time."""
    assert sink_of(path).open(KEY, {}).preflight(SCHEMA, (), "day") == []
    for number, ids in enumerate(np.array_split(np.arange(rows), DAYS)):
        batches = [ids[i : i + _BATCH_ROWS] for i in range(0, len(ids), _BATCH_ROWS)]
        publish(path, FIRST + number * ONE_DAY, batches, version=1)


def peak_mb(name: str = "VmHWM") -> float:
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


def merge_with_delta_rs(path: str, rows: int) -> float:
    """Merge with delta-rs. Returns the seconds."""
    from deltalake import DeltaTable

    source = pa.Table.from_batches([rows_of(keys(rows), 2)])
    source = source.append_column("day", pa.array([LAST] * source.num_rows))
    started = time.perf_counter()
    (
        DeltaTable(path)
        .merge(source, "t.id = s.id", source_alias="s", target_alias="t")
        .when_matched_update_all("s.updated_at >= t.updated_at")
        .when_not_matched_insert_all()
        .execute()
    )
    return time.perf_counter() - started


def run(who: str, path: str, rows: int) -> None:
    """Merge in this process and print the figures."""
    import deltalake  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    imported = peak_mb("VmRSS")
    seconds = publish(path, LAST, [keys(rows)], 2) if who == "sink" else merge_with_delta_rs(path, rows)
    print(f"{who}: {seconds:.2f} s, peak {peak_mb():.0f} MB ({imported:.0f} MB after the imports)")


def main(rows: int) -> None:
    """Make a table, and merge into two copies of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__]
        original = f"{folder}/table"
        subprocess.run([*command, "make", original, str(rows)], check=True)
        size = sum(file.stat().st_size for file in Path(original).rglob("*.parquet"))
        print(f"{rows:,} rows, {size / 1e6:.0f} MB on disk, {STAGED_KEYS:,} keys")
        for who in ("delta-rs", "sink") * 2:
            copy = f"{folder}/copy"
            shutil.copytree(original, copy)
            subprocess.run([*command, who, copy, str(rows)], check=True)
            assert _count(copy) == rows + STAGED_KEYS // 10
            shutil.rmtree(copy)


def _count(path: str) -> int:
    from deltalake import DeltaTable

    return sum(pa.table(DeltaTable(path).get_add_actions(flatten=True))["num_records"].to_pylist())


if __name__ == "__main__":
    if len(sys.argv) < 3:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    elif sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
