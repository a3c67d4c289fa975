"""Delta tables of version 1.0.0rc1 are read, loaded on, reloaded and erased from by this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.equipment.earlier import delta_tables
from tests.equipment.earlier.cases import FOLDER, Earlier, EarlierCases, earlier_of
from tests.equipment.earlier.scenes import DELTA
from tests.equipment.earlier.stories import Shop


def people(shop: Shop) -> list[str]:
    """Read the person of every row that is not marked as deleted, in all tables but the head."""
    found = []
    for log in (shop.root / delta_tables.LAKE).glob("[!_]*/_delta_log"):
        for file in DeltaTable(str(log.parent)).file_uris():
            rows = pq.ParquetFile(file).read().to_pylist()
            found += [row["person"] for row in rows if not row.get("__deleted")]
    return found


class TestDelta(EarlierCases):
    @pytest.fixture(params=DELTA)
    def target(self, request: Any, tmp_path: Path) -> Earlier:
        scene, path = DELTA[request.param], FOLDER / "delta" / request.param
        shop = delta_tables.shop_of(tmp_path, scene)
        delta_tables.lay_out(path, shop)
        return earlier_of(shop, scene, path, people)
