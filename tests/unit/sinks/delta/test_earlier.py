"""Delta tables of version 1.0.0rc1 are read, loaded on, reloaded and erased from by this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.equipment.delta.lab import age
from tests.equipment.earlier import delta_tables
from tests.equipment.earlier.cases import FOLDER, Earlier, EarlierCases, earlier_of
from tests.equipment.earlier.scenes import DELTA, DELTA_HALTED, Scene
from tests.equipment.earlier.stories import DAYS, Shop, require_all


def people(shop: Shop) -> list[str]:
    """Read the person of every row that is not marked as deleted, in all tables but the head."""
    found = []
    for log in (shop.root / delta_tables.LAKE).glob("[!_]*/_delta_log"):
        for file in DeltaTable(str(log.parent)).file_uris():
            rows = pq.ParquetFile(file).read().to_pylist()
            found += [row["person"] for row in rows if not row.get("__deleted")]
    return found


def laid_out(root: Path, scene: Scene, name: str) -> Earlier:
    shop, path = delta_tables.shop_of(root, scene), FOLDER / "delta" / name
    delta_tables.lay_out(path, shop)
    return earlier_of(shop, scene, path, people)


class TestDelta(EarlierCases):
    @pytest.fixture(params=DELTA)
    def target(self, request: Any, tmp_path: Path) -> Earlier:
        return laid_out(tmp_path, DELTA[request.param], request.param)


def test_a_retry_polls_a_day_anew_that_the_earlier_version_staged(tmp_path: Path) -> None:
    """Its options are others in this version, so nobody knows whether the staged rows are those of the retry."""
    target = laid_out(tmp_path, DELTA_HALTED, "halted")
    assert sorted(target.visible()) == ["ann", "bob"]
    target.shop.order(DAYS[1], "eve")
    target.shop.runs -= 1
    (report,) = require_all(target.load(DAYS[1], attempt=2)).days
    assert (report.status, report.generation, report.rows_written) == ("published", 1, 3)
    age(target.shop.root)
    with target.shop.publisher() as publisher:
        publisher.sweep()
    assert target.visible() == target.expected()
    assert not list(target.shop.root.rglob("*0000000000000002-1-*"))
