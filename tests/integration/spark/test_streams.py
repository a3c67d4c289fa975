"""Three tables of one task under a real spark-submit: one Spark, one failure, and a retry of what is not done."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable

from airflow_provider_connect.operators.retry import TryAgainError
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


def test_a_killed_spark_leaves_whole_tables_and_the_retry_loads_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = ShopFile(tmp_path / "shop.db", monkeypatch)
    names = [f"t{number}" for number in range(12)]
    shop.make(*names, rows=1000)
    (tmp_path / "lake").mkdir()
    lake = StreamsTask(tmp_path / "lake", with_spark=True)
    killer = threading.Thread(target=kill_spark_after, args=(lake.folder, 3))
    killer.start()
    with pytest.raises(TryAgainError, match="SIGKILL"):
        lake.run(lake.operator(["*"], parallel_streams=1))
    killer.join()
    published = [name for name in names if lake.offsets().get(f"shop_db.{name}")]
    assert 3 <= len(published) < len(names)
    report = lake.run(lake.operator(["*"]), try_number=2)
    statuses = {title.partition(".")[2]: stream["days"][0]["status"] for title, stream in report["streams"].items()}
    assert [name for name in names if statuses[name] == "already_published"] == published
    for name in names:
        table = DeltaTable(str(lake.folder / name)).to_pyarrow_table()
        assert sorted(table["id"].to_pylist()) == list(range(1, 1001))
    assert {name.removeprefix("shop_db.") for name, days in lake.offsets().items() if days} == set(names)


def kill_spark_after(lake: Path, tables: int) -> None:
    """Kill this process's spark-submit as soon as so many tables have a publish."""
    while sum(1 for _ in lake.glob("*/_delta_log/00000000000000000001.json")) < tables:
        time.sleep(0.01)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "SparkSubmit" in " ".join(process.cmdline()):
                process.kill()
