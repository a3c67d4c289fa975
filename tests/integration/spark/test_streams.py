"""Three tables of one task under a real spark-submit: one Spark, one failure, and a retry of what is not done."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable

from tests.equipment.airflow.streams_task import StreamsTask
from tests.equipment.sql.shop_file import ShopFile

pytestmark = pytest.mark.slow


def test_tables_of_one_spark_fail_and_are_retried_singly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = ShopFile(tmp_path / "shop.db", monkeypatch)
    shop.make("customers", "orders", "stock", rows=1000)
    shop.run("UPDATE orders SET amount = 'many' WHERE id = 2")
    (tmp_path / "lake").mkdir()
    lake = StreamsTask(tmp_path / "lake", with_spark=True)
    with pytest.raises(AirflowFailException, match=r"1 of 3 streams failed:\nmain.orders: .*'amount'"):
        lake.run(lake.operator(["*"]))
    versions = [DeltaTable(str(lake.folder / name)).version() for name in ("customers", "stock")]
    shop.run("UPDATE orders SET amount = 20 WHERE id = 2")
    report = lake.run(lake.operator(["*"]), try_number=2)
    assert {title: stream["days"][0]["status"] for title, stream in report["streams"].items()} == {
        "main.customers": "already_published",
        "main.orders": "published",
        "main.stock": "already_published",
    }
    assert [DeltaTable(str(lake.folder / name)).version() for name in ("customers", "stock")] == versions
    assert DeltaTable(str(lake.folder / "orders")).to_pyarrow_table().num_rows == 1000
