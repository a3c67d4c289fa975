"""Tables and ledgers of version 1.0.0rc1 in BigQuery are read, loaded on, reloaded and erased from by this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.connection import Connection
from tests.equipment.earlier import bigquery_tables
from tests.equipment.earlier.cases import FOLDER, Earlier, EarlierCases, earlier_of
from tests.equipment.earlier.scenes import BIGQUERY
from tests.equipment.earlier.stories import DAYS, Shop

pytestmark = pytest.mark.slow


def people(shop: Shop) -> list[str]:
    """Read the person of every row that is not marked as deleted, in all tables of the dataset that have rows."""
    found: list[str] = []
    with BigQueryApi.open(shop.connections[bigquery_tables.CONN_ID]) as api:
        for item in api.client.list_tables(bigquery_tables.dataset_of(shop), timeout=30, retry=None):
            if "__" not in item.table_id:
                sql = f"SELECT * FROM `{item.dataset_id}`.`{item.table_id}`"
                rows = api.query(sql, action="reading", labels={})[0]
                found += [row["person"] for row in rows if not row.get("__deleted")]
    return found


def columns(shop: Shop, table: str) -> set[str]:
    with BigQueryApi.open(shop.connections[bigquery_tables.CONN_ID]) as api:
        place = f"{bigquery_tables.dataset_of(shop)}.{table}"
        return {field.name for field in api.client.get_table(place, timeout=30, retry=None).schema}


def laid_out(root: Path, connection: Connection, dataset: str, name: str) -> Earlier:
    scene, path = BIGQUERY[name], FOLDER / "bigquery" / name
    shop = bigquery_tables.shop_of(root, connection, dataset, scene)
    bigquery_tables.lay_out(path, shop)
    return earlier_of(shop, scene, path, people)


class TestBigQuery(EarlierCases):
    @pytest.fixture(params=BIGQUERY)
    def target(self, request: Any, google_connection: Connection, dataset: str, tmp_path: Path) -> Earlier:
        return laid_out(tmp_path, google_connection, dataset, request.param)


def test_ledger_and_list_get_the_columns_that_they_lack(
    google_connection: Connection, dataset: str, tmp_path: Path
) -> None:
    target = laid_out(tmp_path, google_connection, dataset, "days")
    ledger, listed = columns(target.shop, "orders__ledger"), columns(target.shop, "orders__erased")
    assert "definition" not in ledger
    assert "shaping" not in listed
    target.load_one(DAYS[4])
    target.shop.erase("bob")
    assert columns(target.shop, "orders__ledger") == ledger | {"definition"}
    assert columns(target.shop, "orders__erased") == listed | {"shaping"}
