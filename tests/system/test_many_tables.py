"""A task of many tables in a real Airflow: events through the alias, one failing table, and each stream on the page."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from tests.equipment.airflow.backfills import PATIENCE_SECONDS
from tests.equipment.sql.shop_file import ShopFile
from tests.system.conftest import System, wait_for

pytestmark = pytest.mark.slow


def test_each_table_has_its_event_its_failure_and_its_place_on_the_page(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = system.folder / "tables" / "many"
    lake.mkdir()
    shop = ShopFile(system.folder / "shop.db", monkeypatch)
    shop.make("orders", "stock", "tmp_x")
    shop.run("UPDATE stock SET amount = 'many' WHERE id = 2")
    connection = {"connection_id": "shop_file", "conn_type": "sqlite", "host": str(shop.path)}
    system.airflow.api("POST", "connections", json=connection)
    system.airflow.wait_for_dag("many_tables")
    system.trigger("2026-10-05", "bad", "many_tables")
    wait_for(lambda: system.run("bad", "many_tables")["state"] == "failed", PATIENCE_SECONDS, "the failed run")
    assert "1 of 2 streams failed" in system.log("bad", "many_tables")
    assert DeltaTable(str(lake / "orders")).to_pyarrow_table().num_rows == 3
    assert system.airflow.runs("on_orders") == [], "an event of a failed task"

    shop.run("UPDATE stock SET amount = 20 WHERE id = 2")
    system.trigger("2026-10-06", "good", "many_tables")
    system.wait_for_run("good", "many_tables", PATIENCE_SECONDS)
    streams = system.report("good", "many_tables")["streams"]
    assert {title: stream["days"][0]["generation"] for title, stream in streams.items()} == {
        "main.orders": 1,
        "main.stock": 1,
    }
    events = system.airflow.api("GET", "assets/events?source_dag_id=many_tables")["asset_events"]
    assert {event["uri"]: event["extra"]["rows_written"] for event in events} == {
        f"file://{lake}/orders": 3,
        f"file://{lake}/stock": 3,
    }
    wait_for(lambda: system.airflow.runs("on_orders"), PATIENCE_SECONDS, "the run that the event starts")

    answer = system.airflow.page("api/streams", "admin").json()
    assert "streams" in answer, answer
    shown = {stream["id"]: stream for stream in answer["streams"] if stream["dag_id"] == "many_tables"}
    assert {name: (stream["rows_last_day"], stream["position"]) for name, stream in shown.items()} == {
        "many_tables/events#shop_file.orders": (3, "2026-10-06"),
        "many_tables/events#shop_file.stock": (3, "2026-10-06"),
    }
    path = "api/streams/many_tables/events?stream=shop_file.stock&from=2026-10-05&to=2026-10-06"
    days = system.airflow.page(path, "admin").json()["days"]
    assert [(day["day"], day["rows"]) for day in days] == [("2026-10-05", None), ("2026-10-06", 3)]
