"""What two states of a day have in common: against multisets of Python's, whatever order, files and buckets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.stage import differences as module
from airflow_provider_connect.stage.differences import Differences, compare_states
from airflow_provider_connect.stage.storage import Folder

SCHEMA = pa.schema([("text", pa.string()), ("n", pa.int64()), ("record_key", pa.string())])
Row = tuple[str | None, int | None, int]

ROWS = st.lists(
    st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, 0, 1, -1]), st.integers(0, 12)), max_size=40
)


def write(path: Path, rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> str:
    columns = list(zip(*[(*values, f"{key:032x}") for *values, key in rows], strict=True)) or [[]] * len(schema)
    pq.write_table(
        pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema),
        path,
        row_group_size=7,
    )
    return path.name


def compared(root: Path, old: Sequence[Any], new: Sequence[Any], schema: pa.Schema = SCHEMA) -> Differences | None:
    return compare_states(Folder(str(root)), [write(root / "o", old, schema)], [write(root / "n", new, schema)], schema)


@given(old=ROWS, new=ROWS, bucket=st.sampled_from([3, 1000]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rows_are_added_changed_and_vanished_as_multisets_say(
    old: list[Row], new: list[Row], bucket: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BUCKET_ROWS", bucket)
    before = [write(tmp_path / f"old{i}", old[i::2]) for i in range(2)]
    after = [write(tmp_path / "new", new)]
    same = (Counter(old) & Counter(new)).total()
    kept = (Counter(row[-1] for row in old) & Counter(row[-1] for row in new)).total()
    found = compare_states(Folder(str(tmp_path)), before, after, SCHEMA)
    assert found == Differences(added=len(new) - kept, changed=kept - same, vanished=len(old) - kept)


def test_a_day_that_had_no_rows_or_has_none_is_all_new_or_all_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "one", [("a", 1, 1), ("a", 1, 2)])
    folder = Folder(str(tmp_path))
    assert compare_states(folder, [], [path], SCHEMA) == Differences(added=2, changed=0, vanished=0)
    assert compare_states(folder, [path], [], SCHEMA) == Differences(added=0, changed=0, vanished=2)


def test_a_new_column_changes_no_row(tmp_path: Path) -> None:
    more = pa.schema([("extra", pa.string()), *SCHEMA])
    old, new = write(tmp_path / "o", [("a", 1, 1)]), write(tmp_path / "n", [("x", "a", 1, 1)], more)
    folder = Folder(str(tmp_path))
    assert compare_states(folder, [old], [new], more) == Differences(added=0, changed=0, vanished=0)


def test_rows_without_a_key_are_not_compared(tmp_path: Path) -> None:
    keyless = pa.schema([("text", pa.string()), ("other", pa.string())])
    assert compared(tmp_path, [("a", 1)], [("b", 1)], keyless) is None


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.bool_(), True, False),
        (pa.float64(), 0.5, 0.25),
        (pa.float64(), None, 0.0),
        (pa.date32(), 1, 2),
        (pa.timestamp("us", "UTC"), 1, 2),
        (pa.decimal128(9, 2), 1, 2),
        (pa.list_(pa.string()), ["a"], ["a", "b"]),
        (pa.struct([("x", pa.int8())]), {"x": 1}, {"x": None}),
        (pa.binary(), b"a", b"b"),
        (pa.string(), None, ""),
    ],
    ids=str,
)
def test_every_type_tells_changed_from_equal(tmp_path: Path, kind: pa.DataType, one: Any, other: Any) -> None:
    schema = pa.schema([("value", kind), ("record_key", pa.string())])
    assert compared(tmp_path, [(one, 1), (one, 2)], [(one, 1), (other, 2)], schema) == Differences(
        added=0, changed=1, vanished=0
    )


def test_values_that_change_places_are_a_change(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string()), ("record_key", pa.string())])
    found = compared(tmp_path, [("x", "y", 1)], [("y", "x", 1)], schema)
    assert found is not None
    assert found.changed == 1


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.parquet"):
        compare_states(Folder(str(tmp_path)), ["gone.parquet"], [], SCHEMA)
