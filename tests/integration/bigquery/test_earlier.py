"""Tables and ledgers of version 1.0.0rc1 in BigQuery are read, loaded on, reloaded and erased from by this version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import Api
from airflow_provider_connect.connection import Connection
from tests.equipment.earlier import bigquery_tables
from tests.equipment.earlier.cases import FOLDER, Earlier, EarlierCases, earlier_of
from tests.equipment.earlier.scenes import BIGQUERY
from tests.equipment.earlier.stories import Shop

pytestmark = pytest.mark.slow


def people(shop: Shop) -> list[str]:
    """Read the person of every row that is not marked as deleted, in all tables of the dataset that have rows."""
    found: list[str] = []
    with Api.open(shop.connections[bigquery_tables.CONN_ID]) as api:
        for item in api.client.list_tables(bigquery_tables.dataset_of(shop), timeout=30, retry=None):
            if "__" not in item.table_id:
                sql = f"SELECT * FROM `{item.dataset_id}`.`{item.table_id}`"  # noqa: S608
                rows = api.query(sql, doing="reading", labels={})[0]
                found += [row["person"] for row in rows if not row.get("__deleted")]
    return found


class TestBigQuery(EarlierCases):
    @pytest.fixture(params=BIGQUERY)
    def target(self, request: Any, google_connection: Connection, dataset: str, tmp_path: Path) -> Earlier:
        scene, path = BIGQUERY[request.param], FOLDER / "bigquery" / request.param
        shop = bigquery_tables.shop_of(tmp_path, google_connection, dataset, scene)
        bigquery_tables.lay_out(path, shop)
        return earlier_of(shop, scene, path, people)
