"""The tables of a BigQuery dataset as JSON: as the REST API describes them, and their rows."""

from __future__ import annotations

import base64
import datetime as dt
import json
from pathlib import Path
from typing import Any

from google.cloud import bigquery

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.connection import Connection
from tests.equipment.earlier.scenes import Scene
from tests.equipment.earlier.stories import Shop

CONN_ID = "google_cloud_default"
_PLACE = "{project}.{dataset}"
"""Stands for the dataset in the rows."""
_DESCRIBED = ("schema", "timePartitioning", "clustering", "labels", "description")


def shop_of(root: Path, connection: Connection, dataset: str, scene: Scene) -> Shop:
    """Return a shop whose tables lie in a dataset of its own."""
    return Shop(root, "bigquery", {"table": f"{dataset}.{scene.place}", **scene.sink}, {CONN_ID: connection})


def dataset_of(shop: Shop) -> str:
    return str(shop.target["table"]).partition(".")[0]


def keep(shop: Shop, path: Path) -> None:
    """Write descriptions and rows of all tables of the shop's dataset."""
    dataset, tables = dataset_of(shop), {}
    with BigQueryApi.open(shop.connections[CONN_ID]) as api:
        for item in api.client.list_tables(dataset, timeout=30, retry=None):
            table = api.client.get_table(item.reference, timeout=30, retry=None)
            resource = table.to_api_repr()
            rows = api.query(f"SELECT * FROM `{dataset}`.`{table.table_id}`", action="keep", labels={})[0]
            tables[table.table_id] = {
                "table": {name: resource[name] for name in _DESCRIBED if name in resource},
                "rows": sorted((_plain(row, f"{api.project}.{dataset}") for row in rows), key=json.dumps),
            }
    path.with_suffix(".tables.json").write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n")


def _plain(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one, place) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, place) for one in value]
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.replace(place, _PLACE) if isinstance(value, str) else value


def lay_out(path: Path, shop: Shop) -> None:
    """Make the kept tables in a shop's dataset."""
    dataset = dataset_of(shop)
    with BigQueryApi.open(shop.connections[CONN_ID]) as api:
        for name, kept in json.loads(path.with_suffix(".tables.json").read_text()).items():
            reference = {"projectId": api.project, "datasetId": dataset, "tableId": name}
            resource = kept["table"] | {"tableReference": reference}
            table = api.client.create_table(bigquery.Table.from_api_repr(resource), timeout=30, retry=None)
            types = {field.name: field for field in table.schema}
            for row in kept["rows"]:
                values = ", ".join(_literal(types[column], value, api, dataset) for column, value in row.items())
                columns = ", ".join(f"`{column}`" for column in row)
                sql = f"INSERT INTO `{dataset}`.`{name}` ({columns}) VALUES ({values})"
                api.query(sql, action="lay out", labels={})


def _literal(field: Any, value: Any, api: BigQueryApi, dataset: str) -> str:
    """Return a kept value as SQL. JSON has a string's quotes and escapes as SQL has them."""
    if field.mode == "REPEATED":
        return f"[{', '.join(json.dumps(one) for one in value)}]"
    if value is None:
        return "NULL"
    if field.field_type in ("JSON", "RECORD"):
        text = value if isinstance(value, str) else json.dumps(value)
        return f"PARSE_JSON({json.dumps(text)})"
    if field.field_type == "BYTES":
        return f"FROM_BASE64({json.dumps(value)})"
    text = str(value).replace(_PLACE, f"{api.project}.{dataset}")
    sql_type = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}.get(field.field_type, field.field_type)
    return json.dumps(text) if sql_type == "STRING" else f"CAST({json.dumps(text)} AS {sql_type})"
