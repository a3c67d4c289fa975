"""Erasing where it meets others: their files, a newer snapshot, a sweep, a confirmation."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sinks._delta.commit import Commit, Confirmation
from airflow_provider_connect.sinks._delta.eraser import DeltaEraser
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import MAY, SCHEMA, Lab, rows_of

ANSWER = "f" * 32
KEYED = SCHEMA.append(pa.field("record_key", pa.string()))
LATE = {"late_1_days": 5, "late_2_days": 1}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "events").make()


def erased(lab: Lab, *values: str, kind: Any = "day") -> dict[Any, int]:
    return dict(lab.publisher.erase("event", values, kind).rows)


def add(lab: Lab, rows: pa.Table, date: dt.date | None, *, replaces: bool = False, **options: Any) -> None:
    """Add a file of another writer's to a day, or put it in the place of the day's, as a compaction does."""
    table = DeltaTable(str(lab.root))
    name = f"day={date}/part-{table.version()}.parquet"
    (lab.root / name).parent.mkdir(exist_ok=True)
    pq.write_table(rows, lab.root / name, **options)
    size, values = (lab.root / name).stat().st_size, {"day": date and str(date)}
    table.create_write_transaction(
        [AddAction(name, size, values, 0, True, f'{{"numRecords": {rows.num_rows}}}')],
        mode="overwrite" if replaces else "append",
        schema=table.schema(),
        partition_by=["day"],
        partition_filters=[("day", "=", str(date))] if replaces else None,
    )


def rows_in(lab: Lab) -> pa.Table:
    (file,) = DeltaTable(str(lab.root)).file_uris()
    return pq.ParquetFile(file).read()


def columns_as(rows: pa.Table, kind: pa.DataType) -> pa.Table:
    """Return rows whose texts are of another of Arrow's types, which Delta does not tell apart."""
    return rows.cast(pa.schema([f.with_type(kind) if pa.types.is_string(f.type) else f for f in rows.schema]))


def test_times_that_spark_compacted_stay_what_they_were(lab: Lab) -> None:
    """Of 12 bytes each: they have no zone, and as nanoseconds no year after 2262."""
    lab.publish(MAY, ["a", "b"], "t1")
    far = pa.array([dt.datetime(3000, 1, 1, tzinfo=dt.UTC)] * 2, pa.timestamp("us", "UTC"))
    before = rows_in(lab).set_column(1, "time", far)
    add(lab, before, MAY, replaces=True, use_deprecated_int96_timestamps=True, store_schema=False)
    assert erased(lab, "a") == {MAY: 1}
    assert rows_in(lab).to_pylist() == before[1:].to_pylist()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view()], ids=str)
def test_a_day_that_was_compacted_in_part_is_written_with_the_tables_types(tmp_path: Path, kind: pa.DataType) -> None:
    lab = Lab(tmp_path / "events").make(KEYED)
    lab.publish(MAY, ["a", "b"], "t1")
    ours = rows_in(lab).append_column("record_key", pa.array(["1" * 32, "2" * 32]))
    add(lab, columns_as(ours, kind), MAY, replaces=True)
    add(lab, ours, MAY)
    assert erased(lab, "a") == {MAY: 2}
    assert rows_of(lab.root) == ["b", "b"]
    assert lab.ledger.row(MAY).digest == f"{2 * int('2' * 32, 16):032x}"


def test_rows_without_a_day_are_not_passed_over(lab: Lab) -> None:
    lab.publish(MAY, ["a"], "t1")
    add(lab, pa.table({"event": ["a"]}), None)
    for act in (lambda: lab.publisher.find("event", ["a"]), lambda: erased(lab, "a")):
        with pytest.raises(ConfigError, match=r"days that this stream never published \(no day\)"):
            act()


def test_a_snapshot_published_during_the_erase_has_no_erased_rows(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish(MAY, ["a", "b"], "t1", kind="snapshot")
    run = Commit.run

    def superseded(self: Commit) -> Any:
        monkeypatch.setattr(Commit, "run", run)
        lab.publish(MAY + ONE_DAY, ["b"], "t2", kind="snapshot")  # it polled under the list
        return run(self)

    monkeypatch.setattr(Commit, "run", superseded)
    assert erased(lab, "a", kind="snapshot") == {MAY: 0}
    assert rows_of(lab.root) == ["b"]


def test_a_history_that_no_snapshot_may_replace_is_found_before_the_list_is_longer(tmp_path: Path) -> None:
    daily = Lab(tmp_path / "profiles", snapshot="daily").make()
    for date in (MAY, MAY + ONE_DAY):
        daily.publish(date, ["a"], f"t{date}", kind="snapshot")
    with pytest.raises(ConfigError, match="Set snapshot='daily'"):
        erased(Lab(daily.root), "a", kind="snapshot")
    assert daily.ledger.erased().version == 0
    assert erased(daily, "a", kind="snapshot") == {MAY: 1, MAY + ONE_DAY: 1}
    assert rows_of(daily.root) == []


def test_an_erase_of_a_large_day_shows_that_it_lives(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish(MAY, ["a", "b"], "t1")
    add(lab, rows_in(lab), MAY)
    copied, files = DeltaEraser._copy_file, 0

    def slow(self: DeltaEraser, *args: Any) -> Any:
        nonlocal files
        files += 1
        if files == 2:  # the first took longer than an attempt may be silent
            for sign in lab.root.glob("_connect/attempts/erase*/progress-00000.json"):
                os.utime(sign, (0, 0))
            lab.sweep()
        return copied(self, *args)

    monkeypatch.setattr(DeltaEraser, "_copy_file", slow)
    assert erased(lab, "a") == {MAY: 2}
    assert (files, rows_of(lab.root)) == (2, ["b", "b"])


def confirmed(lab: Lab) -> dt.datetime:
    """Publish a day with late rows, and confirm it; return when that asked the source."""
    publish = lab.stage(MAY, ["a", "b"], "t1", answer=ANSWER)
    polled = publish.manifest.polled.model_copy(update={"counts": LATE})
    lab.commit(replace(publish, manifest=publish.manifest.model_copy(update={"polled": polled})))
    again, at = lab.stage(MAY, ["a", "b"], "t2", answer=ANSWER), dt.datetime(2026, 5, 12, tzinfo=dt.UTC)
    lab.publisher.confirm(replace(again, manifest=again.manifest.model_copy(update={"polled_at": at})))
    return at


def test_late_rows_of_a_confirmed_day_stay_known(lab: Lab) -> None:
    at = confirmed(lab)
    for _ in range(2):
        (row,) = lab.ledger.between(MAY, MAY)
        assert (row.checks, row.rows, row.counts, row.polled_at) == (1, 2, LATE, at)
        lab.clean_log()


def test_a_confirmed_day_that_is_erased_from_begins_at_no_check(lab: Lab) -> None:
    at = confirmed(lab)
    stale = lab.stage(MAY, ["a", "b"], "t3", answer=ANSWER)
    assert erased(lab, "a") == {MAY: 1}
    lab.clean_log()
    (row,) = lab.ledger.between(MAY, MAY)
    assert (row.generation, row.checks, row.rows, row.answer) == (2, 0, 1, None)
    assert (row.counts, row.polled_at) == (LATE | {"erased": 1}, at), "nobody has asked the source"
    assert lab.ledger.erased().matches(["a", "b"]) == [True, False]
    for publishes in (lab.publisher.confirm, lab.commit):
        with pytest.raises(OvertakenError, match="rows were erased"):
            publishes(stale)
    new = lab.stage(MAY, ["b"], "t4", answer=ANSWER)
    assert lab.commit(new).generation == 3, "the next lookback publishes it once more"
    assert lab.publisher.confirm(lab.stage(MAY, ["b"], "t5", answer=ANSWER)).checks == 1


def test_a_confirmation_that_read_the_table_before_the_erase_is_refused_by_delta(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish(MAY, ["b"], "t1", answer=ANSWER)
    lab.publish(MAY + ONE_DAY, ["a"], "t2")
    staged, write = lab.stage(MAY, ["b"], "t3", answer=ANSWER), Confirmation._write

    def late(self: Confirmation, *args: Any) -> None:
        monkeypatch.setattr(Confirmation, "_write", write)
        erased(lab, "a")
        write(self, *args)

    monkeypatch.setattr(Confirmation, "_write", late)
    with pytest.raises(OvertakenError, match="rows were erased") as error:
        lab.publisher.confirm(staged)
    assert error.value.is_erase, "a lookback polls it again"
    assert lab.ledger.newest(MAY, "day").checks == 0


def test_the_ledger_knows_how_many_rows_all_erases_keep_out(lab: Lab) -> None:
    lab.publish(MAY, ["a", "a", "b", "c"], "t1")
    for value, total in (("a", 2), ("b", 3)):
        erased(lab, value)
        newest = lab.ledger.newest(MAY, "day")
        assert newest is not None
        assert newest.counts == {"erased": total}, "without the log's history"
    lab.publish(MAY, ["c"], "t2")
    newest = lab.ledger.newest(MAY, "day")
    assert newest is not None
    assert newest.counts == {}, "the vendor has deleted them"
