"""What a reload of a day in a Delta table changes, and how late its rows came: what the ledger keeps of both."""

from __future__ import annotations

import dataclasses
import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.differences import Differences
from tests.equipment.delta.lab import MAY, SCHEMA, Lab

KEYED = SCHEMA.append(pa.field("record_key", pa.string()))
NOW = dt.datetime(2026, 5, 9, 12, tzinfo=dt.UTC)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table").make(KEYED)


def stage(lab: Lab, rows: list[str], token: str, counts: dict[str, int] | None = None) -> Publish:
    """Stage the day with rows such as ``1a``, whose key is their first digit."""
    publish = lab.stage(MAY, rows, token, schema=KEYED)
    files = []
    for file in publish.manifest.polled.files:
        path = lab.root / file.path
        keys = pa.array([f"{int(row[0]):032x}" for row in rows])
        table = pq.read_table(path, partitioning=None)
        pq.write_table(table.set_column(table.schema.get_field_index("record_key"), "record_key", keys), path)
        files.append(file.model_copy(update={"size_bytes": path.stat().st_size}))
    polled = publish.manifest.polled.model_copy(update={"files": tuple(files), "counts": counts or {}})
    manifest = publish.manifest.model_copy(update={"polled": polled, "polled_at": NOW})
    return dataclasses.replace(publish, manifest=manifest)


def test_a_reload_is_compared_with_what_the_table_shows(lab: Lab) -> None:
    lab.publish(MAY + dt.timedelta(days=1), ["9other"], "t0", schema=KEYED)
    lab.commit(stage(lab, ["1a", "2a", "3a"], "t1"))
    later = stage(lab, ["2a", "3b", "4a", "5a"], "t2")
    assert lab.publisher.differences(later) == Differences(added=2, changed=1, vanished=1)
    lab.commit(later)
    assert lab.publisher.differences(stage(lab, [], "t3")) == Differences(added=0, changed=0, vanished=4)


def test_a_compacted_day_is_compared(lab: Lab) -> None:
    lab.commit(stage(lab, ["1a", "2a"], "t1"))
    lab.commit(stage(lab, ["1a", "2b"], "t2"))
    table = DeltaTable(str(lab.root))
    table.optimize.z_order(["event"])
    assert [path for path in table.file_uris() if "t2" in path] == [], "nothing was compacted"
    assert lab.publisher.differences(stage(lab, ["1b", "3a"], "t3")) == Differences(added=1, changed=1, vanished=1)


def test_a_day_published_since_the_poll_is_not_compared(lab: Lab) -> None:
    """The figures would be about another generation than the one that the commit refuses to replace."""
    lab.commit(stage(lab, ["1a"], "t1"))
    overtaken = stage(lab, ["1b"], "t2")
    lab.commit(stage(lab, ["1c"], "t3"))
    assert lab.publisher.differences(overtaken) is None


def test_rows_without_a_key_are_not_compared(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "keyless").make()
    lab.publish(MAY, ["a"])
    assert lab.publisher.differences(lab.stage(MAY, ["b"], "t2")) is None


@pytest.mark.parametrize("cleaned", [False, True])
def test_how_late_rows_came_outlives_the_log(lab: Lab, cleaned: bool) -> None:
    kept = []
    for token, counts in (
        ("t1", {"late_1_days": 5, "late_2_days": 3, "duplicates": 1}),
        ("t2", {"late_1_days": 0, "late": 7}),
        ("t3", {"duplicates": 2}),
        ("t4", {"late_1_days": 4, "late_2_days": 2, "late_3_days": 1}),
    ):
        lab.commit(stage(lab, ["1a"], token, counts))
        lab.publish(MAY + dt.timedelta(days=1), ["x"], f"x{token}", schema=KEYED)
        if cleaned:
            lab.clean_log()
        (row, _) = lab.ledger.between(MAY, MAY + dt.timedelta(days=1))
        assert row.polled_at == NOW
        kept.append(row.counts)
    assert kept == [
        {"late_1_days": 5, "late_2_days": 3},
        {"late_1_days": 0},
        {},
        {"late_1_days": 4, "late_2_days": 2, "late_3_days": 1},
    ]


def test_the_next_poll_is_told_when_the_last_one_was(lab: Lab) -> None:
    lab.commit(stage(lab, ["1a"], "t1"))
    newest = lab.ledger.newest(MAY, "day")
    assert newest is not None
    assert newest.polled_at == NOW
