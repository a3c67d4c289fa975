from __future__ import annotations

import datetime as dt
import math
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rejects import Reject, write_rejects
from airflow_provider_connect.stage.storage import Folder

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("whole", pa.int64()),
        pa.field("small", pa.int8()),
        pa.field("real", pa.float64()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("clock", pa.timestamp("us")),
        pa.field("date", pa.date32()),
        pa.field("flag", pa.bool_()),
    ]
)
FIRST, LAST = dt.datetime.fromisoformat("1000-01-01"), dt.datetime.fromisoformat("9999-12-31T23:59:59")
ROW = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=5),
        "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
        "small": st.none() | st.integers(-128, 127),
        "real": st.none() | st.floats(allow_nan=False),
        "at": st.none() | st.datetimes(FIRST, LAST, timezones=st.just(dt.UTC)),
        "clock": st.none() | st.datetimes(FIRST, LAST),
        "date": st.none() | st.dates(FIRST.date(), LAST.date()),
        "flag": st.none() | st.booleans(),
    }
)
PATH = "day=2026-10-05/a-00000-000.parquet"


def write(root: Path, *batches: pa.RecordBatch, schema: pa.Schema = SCHEMA) -> Any:
    with RowWriter(Folder(str(root)), PATH, schema) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.file


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def read(root: Path) -> pa.Table:
    return pq.read_table(root / PATH, partitioning=None)


def as_told(bound: Any, like: Any) -> Any:
    """Read a bound as a reader of Delta's statistics does."""
    if isinstance(like, dt.datetime):
        return dt.datetime.fromisoformat(bound)
    return dt.date.fromisoformat(bound) if isinstance(like, dt.date) else bound


@given(st.lists(st.lists(ROW, min_size=1, max_size=6), min_size=1, max_size=3))
def test_statistics_are_never_narrower_than_the_truth(batches: list[list[dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        staged = write(Path(folder), *map(batch, batches))
    rows = [row for part in batches for row in part]
    assert (staged.rows, staged.stats["numRecords"]) == (len(rows), len(rows))
    low, high, nulls = (staged.stats[name] for name in ("minValues", "maxValues", "nullCount"))
    assert set(low) == set(high)
    for name, count in nulls.items():
        assert count == sum(row[name] is None for row in rows), name
    for name in low:
        values = [row[name] for row in rows if row[name] is not None]
        assert as_told(low[name], values[0]) <= min(values), name
        assert as_told(high[name], values[0]) >= max(values), name


def test_statistics_are_there_and_to_the_millisecond(tmp_path: Path) -> None:
    instant = dt.datetime(2026, 10, 5, 12, 0, 0, 123456, tzinfo=dt.UTC)
    row = {"whole": 5, "at": instant, "clock": instant.replace(tzinfo=None), "date": instant.date()}
    stats = write(tmp_path, batch([{**dict.fromkeys(SCHEMA.names), **row}])).stats
    assert stats["minValues"]["at"] == "2026-10-05T12:00:00.123Z"
    assert stats["maxValues"]["at"] == "2026-10-05T12:00:00.124Z"
    assert stats["minValues"]["clock"] == "2026-10-05T12:00:00.123"
    assert stats["minValues"]["date"] == stats["maxValues"]["date"] == "2026-10-05"
    assert stats["minValues"]["whole"] == 5


def test_a_bound_is_no_narrower_than_nan(tmp_path: Path) -> None:
    rows = [dict.fromkeys(SCHEMA.names) | {"real": value} for value in (1.0, math.nan)]
    assert "real" not in write(tmp_path, batch(rows)).stats["maxValues"]


EXTREMES = [-62_135_596_800_000_000, 253_402_300_799_999_999, 2**62, -(2**62)]


@pytest.mark.parametrize("micros", EXTREMES, ids=["year 1", "end of 9999", "far ahead", "far back"])
@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us")], ids=str)
def test_an_instant_that_no_calendar_has_does_not_fail_the_day(tmp_path: Path, micros: int, kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("at", kind)])
    column = pa.array([0, micros], pa.int64()).cast(kind)
    staged = write(tmp_path, pa.RecordBatch.from_arrays([column], schema=schema), schema=schema)
    assert staged.rows == 2
    low, high = staged.stats["minValues"].get("at"), staged.stats["maxValues"].get("at")
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if kind.tz else None)
    assert low is None or micros >= 0 or (dt.datetime.fromisoformat(low) - epoch).total_seconds() * 1e6 <= micros
    assert high is None or micros <= 0 or (dt.datetime.fromisoformat(high) - epoch).total_seconds() * 1e6 >= micros


def test_many_row_groups_are_one_file_with_the_statistics_of_all(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("few", pa.string(), metadata={"few_values": "1"})])
    parts = [
        pa.RecordBatch.from_arrays(
            [pa.array(range(start, start + 10_000)), pa.array([f"v{start % 3}"] * 10_000)], schema=schema
        )
        for start in range(0, 150_000, 10_000)
    ]
    staged = write(tmp_path, *parts, schema=schema)
    assert staged.rows == 150_000
    assert (staged.stats["minValues"]["n"], staged.stats["maxValues"]["n"]) == (0, 149_999)
    assert staged.size_bytes == (tmp_path / PATH).stat().st_size
    assert pq.ParquetFile(tmp_path / PATH).num_row_groups > 1
    assert read(tmp_path)["n"].to_pylist() == list(range(150_000))
    assert read(tmp_path)["few"].to_pylist() == [text for part in parts for text in part["few"].to_pylist()]


def test_a_writer_without_rows_leaves_no_file(tmp_path: Path) -> None:
    assert write(tmp_path) is None
    assert write(tmp_path, batch([])) is None
    assert not (tmp_path / PATH).exists()


@pytest.mark.parametrize("after", [0, 1, 70_000])
def test_after_an_error_the_file_is_gone_and_the_error_is_the_same(tmp_path: Path, after: int) -> None:
    row = dict.fromkeys(SCHEMA.names)
    writer = RowWriter(Folder(str(tmp_path)), PATH, SCHEMA)

    def fail() -> None:
        with writer:
            if after:
                writer.write(batch([row] * after))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert writer.file is None
    assert not (tmp_path / PATH).exists()


def test_rejects_keep_their_bytes_and_have_a_digest(tmp_path: Path) -> None:
    rejects = [Reject(7, "no object", b"\xff\x00[1]"), Reject(99, "no object", b"[1]")]
    staged = write_rejects(Folder(str(tmp_path)), "x/rejects.parquet", rejects)
    assert staged is not None
    assert (staged.rows, staged.size_bytes) == (2, (tmp_path / staged.path).stat().st_size)
    rows = pq.read_table(tmp_path / staged.path).to_pylist()
    assert [(row["position"], row["reason"], row["record"]) for row in rows] == [
        (7, "no object", b"\xff\x00[1]"),
        (99, "no object", b"[1]"),
    ]
    assert len({row["digest"] for row in rows}) == 2
    assert write_rejects(Folder(str(tmp_path)), "x/none.parquet", []) is None
    assert not (tmp_path / "x/none.parquet").exists()
