"""Delta's own code on the sink's tables: it reads, optimises, vacuums and deletes, and the sink goes on."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.equipment.delta.lab import MAY, Lab, rows_of
from tests.equipment.delta.merging import MergeLab
from tests.equipment.delta.spark import DeltaSpark

pytestmark = pytest.mark.slow
TUESDAY = MAY + dt.timedelta(days=1)


def test_deltas_own_code_reads_optimises_and_deletes_between_our_publishes(
    delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    root = tmp_path / "a table"
    lab, table = Lab(root).make(), f"delta.`{root}`"

    def read() -> list[tuple[str, str, int]]:
        rows = delta_spark.sql(f"SELECT day, event, year(time) AS year FROM {table}")
        return sorted((row["day"], row["event"], row["year"]) for row in rows)

    monday = [(str(MAY), event, 2026) for event in ("a", "b")]
    lab.publish(MAY, ["a", "b"])
    assert read() == monday
    lab.publish(TUESDAY, ["c"])
    lab.publish(TUESDAY, ["c", "d"], "t2")
    both = [*monday, *((str(TUESDAY), event, 2026) for event in ("c", "d"))]
    assert read() == both

    delta_spark.sql(f"OPTIMIZE {table}")
    assert read() == both
    wednesday = TUESDAY + dt.timedelta(days=1)
    assert lab.publish(wednesday, ["e"]).generation == 1, "a foreign OPTIMIZE is no publish of ours"
    assert lab.publish(MAY, ["a", "x"], "t2").generation == 2, "and does not hide what a reload replaces"
    reloaded = [(str(MAY), "a", 2026), (str(MAY), "x", 2026), *both[2:], (str(wednesday), "e", 2026)]
    assert read() == reloaded

    delta_spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    assert read() == reloaded
    delta_spark.sql(f"DELETE FROM {table} WHERE event = 'd'")
    left = [row for row in reloaded if row[1] != "d"]
    assert read() == left
    assert rows_of(root) == sorted(event for _, event, _ in left)
    assert lab.publish(TUESDAY, ["c", "d", "f"], "t3").generation == 3
    assert [event for _, event, _ in read()] == ["a", "x", "c", "d", "f", "e"]


def test_deltas_own_code_reads_and_optimises_a_merged_table(delta_spark: DeltaSpark, tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "a table", delete_where="gone").made()
    table = f"delta.`{lab.root}`"

    def read() -> list[tuple[int, str]]:
        rows = delta_spark.sql(f"SELECT id, value FROM {table}")
        assert lab.shown() == sorted((row["id"], row["value"]) for row in rows)
        return lab.shown()

    lab.put(MAY, [(number, "a") for number in range(6)])
    lab.put(TUESDAY, [(1, "b"), (2, "b", None, True), (7, "b")])
    assert read() == [(0, "a"), (1, "b"), (3, "a"), (4, "a"), (5, "a"), (7, "b")]
    assert len(delta_spark.sql(f"SELECT id FROM {table} WHERE id >= 4")) == 3, "statistics hide no row"
    delta_spark.sql(f"OPTIMIZE {table}")
    delta_spark.sql(f"VACUUM {table} RETAIN 0 HOURS")
    lab.put(TUESDAY + dt.timedelta(days=1), [(5, "c"), (7, "c", None, True)])
    lab.put(MAY, [(1, "old"), (2, "old"), (3, "again"), (7, "old")], "again")
    assert read() == [(0, "a"), (1, "b"), (3, "again"), (4, "a"), (5, "c")]
