"""Eight days of a busy table on real databases: each way loads exactly the rows it promises."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from deltalake import DeltaTable

from tests.equipment.kafka.fixtures import Target, records
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.player import Load, live_through, rows_in
from tests.equipment.sql.promises import WAYS, Way, loaded
from tests.equipment.sql.workload import Row, State, states, workload

pytestmark = pytest.mark.slow

Key = TypeVar("Key")
Value = TypeVar("Value")


SEEDS = [pytest.param(seed, WAYS[seed::2], id=str(seed)) for seed in (0, 1)]
"""These share the ways; the seeds of the campaign go every way."""
MANY = [pytest.param(seed, WAYS, id=str(seed), marks=pytest.mark.campaign) for seed in range(2, 30)]


@pytest.mark.parametrize(("seed", "ways"), [*SEEDS, *MANY])
def test_each_way_loads_exactly_the_rows_it_promises(
    either: OwnDatabase, tmp_path: Path, seed: int, ways: Sequence[Way]
) -> None:
    played = workload(seed)
    loads = [Load(either, way, tmp_path / str(number)) for number, way in enumerate(ways)]
    found = live_through(either, played, loads)
    *_, truth = states(played)
    require_same(found, truth, "the database")
    for load in loads:
        require_same(load.loaded(), loaded(played, load.way), load.way.name)


MERGED = [way for way in WAYS if "timestamp_column" in way.options or way.options.get("snapshot") == "replace"]


def test_a_merged_table_has_each_row_once_in_its_newest_loaded_state(either: OwnDatabase, tmp_path: Path) -> None:
    played = workload(0)
    loads = []
    for number, way in enumerate(MERGED):
        path = str(tmp_path / str(number) / "table")
        sink = {"path": path, "write_mode": "merge", "key": ["id"], "newest_by": "changed"}
        loads.append(Load(either, way, tmp_path / str(number), sink=sink))
    live_through(either, played, loads)
    for load in loads:
        merged: State = {}
        for (_, number), row in sorted(loaded(played, load.way).items(), key=lambda item: item[0]):
            if number not in merged or changed_at(row) >= changed_at(merged[number]):
                merged[number] = row
        found = load.loaded()
        assert len({number for _, number in found}) == len(found), f"{load.way.name}: a key has two rows"
        require_same({number: row for (_, number), row in found.items()}, merged, load.way.name)


def changed_at(row: Row) -> dt.datetime:
    return row.changed or dt.datetime.min.replace(tzinfo=dt.UTC)


def test_soft_deletes_keep_deleted_rows(either: OwnDatabase, tmp_path: Path) -> None:
    """Deleted rows keep their last values from the first snapshot without them. Restored rows are ordinary rows."""
    path = tmp_path / "load" / "table"
    way = Way("snapshot, soft deletes", {"snapshot": "replace"})
    load = Load(either, way, tmp_path / "load", sink={"path": str(path), "deletes": "soft"})
    before: State = {}
    gone: dict[int, tuple[Row, dt.datetime]] = {}
    counted: list[tuple[int, int]] = []

    def look(truth: State) -> None:
        table = DeltaTable(str(path))
        at = dt.datetime.fromisoformat(table.history()[0]["connect.polled_at"])
        gone.update({number: (row, at) for number, row in before.items() if number not in truth})
        back = [gone.pop(number) for number in gone.keys() & truth.keys()]
        before.clear()
        before.update(truth)
        counted.append((len(gone), len(back)))
        found = table.to_pyarrow_table().to_pylist()
        rows = list(zip(rows_in(found), found, strict=True))
        require_same({row.id: row for row, each in rows if each["__deleted"] is False}, truth, "what is there")
        deleted = {row.id: (row, each["__deleted_at"]) for row, each in rows if each["__deleted"] is True}
        require_same(deleted, gone, "what is deleted")
        assert len(found) == len(truth) + len(gone), "no row is there twice"

    live_through(either, workload(0), [load], look)
    assert all(map(max, zip(*counted, strict=True))), "some vanish, and some of these come back"


def test_a_compacted_topic_that_follows_snapshots_equals_the_database(
    postgresql: OwnDatabase, kafka_target: Target, tmp_path: Path
) -> None:
    """New and changed keys are sent as rows, deleted keys as tombstones."""
    topic = {"topic": kafka_target.sink.topic, "ledger_topic": kafka_target.sink.ledger_topic, "partitions": 2}
    options = topic | {"key_fields": ["id"], "cleanup": "compact", "timeout_seconds": 20}
    way = Way("snapshot", {"snapshot": "replace"})
    load = Load(
        postgresql, way, tmp_path / "load", sink_name="kafka", sink=options, connections=kafka_target.connections
    )
    sent: list[int] = []

    def look(truth: State) -> None:
        found = records(kafka_target.bootstrap, topic["topic"])
        sent.append(len(found))
        newest = {int(record.key or b""): json.loads(record.value or b"null") for record in found}
        there = {number: str(each["state"]) for number, each in newest.items() if each is not None}
        require_same(there, {number: row.state for number, row in truth.items()}, "the topic")

    live_through(postgresql, workload(0), [load], look)
    assert sent == sorted(set(sent)), "each day brings some"


def require_same(loaded_rows: Mapping[Key, Value], expected: Mapping[Key, Value], subject: str) -> None:
    """Compare keys first, since pytest takes minutes to show the difference of whole tables."""
    assert len(loaded_rows) == len(expected), subject
    assert not loaded_rows.keys() ^ expected.keys(), subject
    other = [key for key, row in loaded_rows.items() if row != expected[key]]
    assert not other, f"{subject}: {len(other)} rows differ, one is {loaded_rows[other[0]]}, not {expected[other[0]]}"
