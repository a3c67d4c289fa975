"""Columns that grow in a Delta table: files and types change in one commit, and nothing else does."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._delta import widening
from airflow_provider_connect.sinks._delta.eraser import DeltaEraser
from airflow_provider_connect.sinks._delta.wider_types import is_wider
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.testing import Bench, Target
from airflow_provider_connect.testing import bench as benches
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import MAY, Lab, age, files_of
from tests.equipment.delta.merging import MergeLab

SECOND, THIRD = MAY + ONE_DAY, MAY + 2 * ONE_DAY
INT, BIG = pa.int32(), pa.int64()


def schema_of(kind: pa.DataType, *others: tuple[str, pa.DataType]) -> pa.Schema:
    return pa.schema([("event", pa.string()), ("value", kind), *others])


def values(root: Path, version: int | None = None) -> list[Any]:
    table = DeltaTable(str(root), version=version).to_pyarrow_table()
    return [row["value"] for row in sorted(table.to_pylist(), key=lambda row: str((row["day"], row["event"])))]


def type_of(root: Path) -> pa.DataType:
    return pa.schema(DeltaTable(str(root)).schema().to_arrow()).field("value").type


def stage(lab: Lab, day: dt.date, column_type: pa.DataType, given: list[Any], token: str = "", **more: Any) -> Any:
    events = [chr(97 + number) for number in range(len(given))]
    others = {"value": pa.array(given, column_type)}
    return lab.stage(day, events, token or f"t{day}", schema=schema_of(column_type), others=others, **more)


def make_lab(root: Path, kind: pa.DataType = INT, **options: Any) -> Lab:
    return Lab(root, **options).make(schema_of(kind))


GROWN = [
    (pa.int16(), INT, 7, 7),
    (INT, BIG, -(2**31), -(2**31)),
    (pa.decimal128(10, 2), pa.decimal128(12, 2), Decimal("12345678.90"), Decimal("12345678.90")),
    (pa.decimal128(10, 2), pa.decimal128(14, 4), Decimal("-0.01"), Decimal("-0.0100")),
    (INT, pa.decimal128(10, 0), 2**31 - 1, Decimal(2**31 - 1)),
    (pa.float32(), pa.float64(), 0.5, 0.5),
    (pa.date32(), pa.timestamp("us"), dt.date(1500, 2, 28), dt.datetime.fromisoformat("1500-02-28")),
]
REFUSED = [
    (BIG, INT),
    (INT, pa.string()),
    (BIG, pa.decimal128(18, 0)),
    (BIG, pa.float64()),
    (pa.decimal128(12, 2), pa.decimal128(10, 2)),
    (pa.decimal128(10, 2), pa.decimal128(10, 3)),
    (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    (pa.date32(), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.date32()),
    (pa.string(), pa.binary()),
]


@pytest.mark.parametrize(("old", "new", "value", "as_new"), GROWN)
def test_a_column_grows_with_the_rows_of_all_days(
    tmp_path: Path, old: pa.DataType, new: pa.DataType, value: Any, as_new: Any
) -> None:
    lab = make_lab(tmp_path / "t", old)
    lab.commit(stage(lab, MAY, old, [value, None]))
    lab.commit(stage(lab, SECOND, old, [value]))
    assert lab.preflight(schema_of(new)) == []
    row = lab.commit(stage(lab, THIRD, new, [as_new]))
    assert (row.generation, row.rows) == (1, 1)
    assert values(lab.root) == [as_new, None, as_new, as_new]
    assert type_of(lab.root) == new
    # A reload, an unchanged check by others and the ledger go on as before.
    assert lab.commit(stage(lab, MAY, new, [as_new], "again")).generation == 2
    assert values(lab.root) == [as_new] * 3
    assert [lab.ledger.row(day).rows for day in (MAY, SECOND, THIRD)] == [1, 1, 1]


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_other_changes_of_a_type_are_refused_before_the_poll(
    tmp_path: Path, old: pa.DataType, new: pa.DataType
) -> None:
    lab = make_lab(tmp_path / "t", old)
    before = lab.version
    (problem,) = lab.preflight(schema_of(new))
    assert "column 'value' is" in problem
    assert lab.version == before


def test_freeze_and_a_template_take_no_wider_type(tmp_path: Path) -> None:
    frozen = make_lab(tmp_path / "frozen", schema_contract="freeze")
    assert "column 'value' is integer in the table and long now" in frozen.preflight(schema_of(BIG))[0]
    tables = make_lab(tmp_path / "{event}")
    assert "column 'value' is integer in the table and long now" in tables.preflight(schema_of(BIG))[0]


def test_no_type_is_wider_than_itself_or_in_both_directions() -> None:
    names = ["byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"]
    names += [f"decimal({precision},{scale})" for precision in (5, 10, 20) for scale in (0, 2, 5)]
    wider = {(a, b) for a in names for b in names if is_wider(a, b)}
    assert not any((b, a) in wider for a, b in wider)
    assert {(a, c) for a, b in wider for b2, c in wider if b == b2} <= wider, "twice wider is wider"


def test_the_size_is_told_before_and_a_larger_table_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab = make_lab(tmp_path / "t")
    lab.commit(stage(lab, MAY, INT, [1, 2]))
    staged = stage(lab, SECOND, BIG, [3])
    with caplog.at_level(logging.WARNING):
        assert lab.preflight(schema_of(BIG)) == []
    assert "column 'value' grows from integer to long. This writes 1 files with 0.0 MB again" in caplog.text
    lab.sink = DeltaSink(path=str(lab.root), widen_up_to=100)
    before, version = files_of(lab.root), lab.version
    (problem,) = lab.preflight(schema_of(BIG))
    assert "widen_up_to=100 allows less. Set widen_up_to=" in problem
    with pytest.raises(ConfigError, match="widen_up_to=100 allows less"):
        lab.commit(staged)
    assert lab.version == version
    assert {name for name in files_of(lab.root) - before if name.endswith(".parquet")} == set()


def test_files_are_written_again_row_group_by_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(tmp_path / "t")
    lab.commit(stage(lab, MAY, INT, list(range(50))))
    batches: list[int] = []
    iterate = widening.iterate_batches
    monkeypatch.setattr(widening, "_BATCH_BYTES", 200)
    monkeypatch.setattr(
        widening, "iterate_batches", lambda *given: (batches.append(b.num_rows) or b for b in iterate(*given))
    )
    lab.commit(stage(lab, SECOND, BIG, [7]))
    assert len(batches) == 5
    assert sorted(values(lab.root)) == sorted([*range(50), 7])


class KilledError(BaseException):
    """The process is dead: nothing catches this."""


@pytest.mark.parametrize("place", ["RowWriter", "commit"])
def test_a_kill_leaves_the_table_as_it_was_and_a_sweep_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    lab = make_lab(tmp_path / "t")
    for day in (MAY, SECOND):
        lab.commit(stage(lab, day, INT, [1, 2]))
    lab.sweep()
    staged, version = stage(lab, THIRD, BIG, [3]), lab.version
    left = iter([getattr(widening, place)])

    def die(*given: Any, **named: Any) -> Any:
        if place == "commit":
            raise KilledError
        for whole in left:
            return whole(*given, **named)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(widening, place, die)
        patch.setattr(widening.Widening, "_delete_files", lambda _: None)
        with pytest.raises(KilledError):
            lab.commit(staged)
    assert lab.version == version
    assert values(lab.root) == [1, 2, 1, 2]
    leftovers = {name for name in files_of(lab.root) if "/widen-" in name and name.endswith(".parquet")}
    assert leftovers
    assert lab.commit(staged).rows == 1
    assert values(lab.root) == [1, 2, 1, 2, 3]
    age(lab.root)
    lab.sweep()
    assert not leftovers & files_of(lab.root)
    assert values(lab.root) == [1, 2, 1, 2, 3]


def test_files_of_a_failed_widening_are_deleted_at_once(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "t")
    for day in (MAY, SECOND):
        lab.commit(stage(lab, day, INT, [1]))
    staged = stage(lab, THIRD, BIG, [3])
    *_, (_, last_path, _) = lab.ledger.view().files
    (lab.root / last_path).unlink()
    with pytest.raises(RetriableError, match="which its log names, is gone"):
        lab.commit(staged)
    assert not [name for name in files_of(lab.root) if "/widen-" in name and name.endswith(".parquet")]


def test_days_in_parallel_widen_once_and_all_come_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(tmp_path / "t")
    lab.commit(stage(lab, MAY, INT, [0]))
    days = [MAY + number * ONE_DAY for number in range(1, 6)]
    publishes = [stage(lab, day, BIG, [number]) for number, day in enumerate(days, start=1)]
    barrier, whole, first = threading.Barrier(len(days)), widening.commit, threading.local()

    def together(*given: Any, **named: Any) -> None:
        if not getattr(first, "waited", False):
            first.waited = True
            barrier.wait(60)
        whole(*given, **named)

    monkeypatch.setattr(widening, "commit", together)
    with ThreadPoolExecutor(len(days)) as pool:
        rows = list(pool.map(lab.commit, publishes))
    assert [row.rows for row in rows] == [1] * 5
    assert values(lab.root) == [0, 1, 2, 3, 4, 5]
    history = DeltaTable(str(lab.root)).history()
    assert sum("connect.widened" in entry for entry in history) == 1


def test_a_day_of_the_older_type_is_polled_again(tmp_path: Path) -> None:
    """Its job began before the column grew."""
    lab = make_lab(tmp_path / "t")
    older, older_reload = stage(lab, SECOND, INT, [2]), stage(lab, MAY, INT, [1])
    lab.commit(stage(lab, THIRD, BIG, [2**40]))
    for staged in (older, older_reload):
        with pytest.raises(RetriableError, match=r"'value' has grown to long since .* was read. Poll the day again"):
            lab.commit(staged)
    assert values(lab.root) == [2**40]
    assert "is long in the table and integer now" in lab.preflight(schema_of(INT))[0], "a source that narrowed"
    lab.commit(stage(lab, SECOND, BIG, [2], "again"))
    assert values(lab.root) == [2, 2**40]


def test_each_increment_of_a_day_keeps_its_own_rows(tmp_path: Path) -> None:
    sink = DeltaSink(path=str(tmp_path / "t"))
    publisher: Any = sink.open(benches.KEY, {})
    assert publisher.preflight(benches.SCHEMA, benches.DAYS, "increment") == []
    bench = Bench(Target(sink=sink, rows=list), publisher, tmp_path / "t")

    def publish(number: int, rows: list[str], clear_number: int = 0) -> Any:
        how = {"kind": "increment", "to": str(number), "clear_number": clear_number}
        return bench.publish(bench.stage(benches.MONDAY, rows, number, str(clear_number + 1), **how))

    for number in (1, 2, 3):
        publish(number, [f"old{number}", f"also{number}"])
    view = publisher.ledger.view()
    fields = [
        widening_field(field, "timestamp_ntz") if str(field.type.type) == "date" and field.name != "day" else field
        for field in view.table.schema().fields
    ]
    change = widening.Widening(view, fields)
    change.run(10**9)
    assert {slot.number for _, _, slot in publisher.ledger.view().files_with_slots() if slot} == {1, 2, 3}
    publish(2, ["new2"], clear_number=1)
    events = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["event"].to_pylist()
    assert sorted(events) == ["also1", "also3", "new2", "old1", "old3"]


def widening_field(field: Any, kind: str) -> Any:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    return Field(field.name, PrimitiveType(kind), nullable=True)


def test_a_merged_table_grows_in_value_and_key(tmp_path: Path) -> None:
    def schema(kind: pa.DataType) -> pa.Schema:
        return pa.schema([("id", kind), ("value", kind), ("version", kind), ("gone", pa.bool_())])

    options = {"newest_by": "version", "delete_where": "gone"}
    lab = MergeLab(tmp_path / "t", schema(INT), **options).made()
    lab.put(MAY, [(1, 1, 1), (2, 2, 1), (3, 3, 1)])
    lab.put(SECOND, [(2, 20, 2), (3, None, 5, True)])
    lab.schema = schema(BIG)
    assert lab.preflight(lab.schema) == []
    lab.put(THIRD, [(1, 2**40, 3), (2**40, 4, 1), (3, 99, 4)])
    assert lab.shown() == [(1, 2**40), (2, 20), (2**40, 4)], "a deleted key stays deleted"
    assert type_of(lab.root) == BIG
    lab.put(MAY, [(2, 7, 1), (3, 7, 6)], "again")
    assert lab.shown() == [(1, 2**40), (2, 20), (3, 7), (2**40, 4)]


def test_a_snapshot_that_replaces_the_whole_takes_any_type(tmp_path: Path) -> None:
    lab = make_lab(tmp_path / "t")
    lab.commit(stage(lab, MAY, INT, [1], kind="snapshot"))
    for day, kind, value in ((SECOND, pa.string(), "one"), (THIRD, pa.float64(), 0.5)):
        assert lab.preflight(schema_of(kind), "snapshot") == []
        assert lab.commit(stage(lab, day, kind, [value], kind="snapshot")).rows == 1
        assert (values(lab.root), type_of(lab.root)) == ([value], kind)
    assert values(lab.root, 1) == [1], "older versions have their own types"
    assert "column 'value'" in lab.preflight(schema_of(INT), "day")[0]


def test_soft_deleted_rows_grow_too(tmp_path: Path) -> None:
    def schema(kind: pa.DataType) -> pa.Schema:
        return schema_of(kind, ("record_key", pa.string()))

    lab = Lab(tmp_path / "t", deletes="soft").make(schema(INT), "snapshot")

    def put(day: dt.date, kind: pa.DataType, rows: list[str]) -> None:
        others = {"value": pa.array([ord(row) for row in rows], kind)}
        lab.commit(lab.stage(day, rows, f"t{day}", schema=schema(kind), others=others, kind="snapshot"))

    put(MAY, INT, ["a", "b"])
    put(SECOND, INT, ["a"])
    assert lab.preflight(schema(BIG), "snapshot") == []
    assert "column 'value'" in lab.preflight(schema(pa.string()), "snapshot")[0]
    put(THIRD, BIG, ["a", "c"])
    rows = DeltaTable(str(lab.root)).to_pyarrow_table().to_pylist()
    assert sorted((row["event"], row["value"], row["__deleted"]) for row in rows) == [
        ("a", 97, False),
        ("b", 98, True),
        ("c", 99, False),
    ]


def test_an_erase_reads_a_day_again_that_grew_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = make_lab(tmp_path / "t")
    lab.commit(stage(lab, MAY, INT, [1, 2]))
    whole, pending = DeltaEraser._commit, [True]

    def commit(self: DeltaEraser, *given: Any) -> None:
        if pending and pending.pop():
            lab.commit(stage(lab, SECOND, BIG, [2**40]))
        whole(self, *given)

    monkeypatch.setattr(DeltaEraser, "_commit", commit)
    assert dict(lab.publisher.erase("event", ["b"], "day").rows) == {MAY: 1}
    assert values(lab.root) == [1, 2**40]
