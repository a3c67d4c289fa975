"""The plugin as Airflow loads it: in every process, so it must cost nothing, and under any path."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CODE = """
import json, sys
import airflow.plugins_manager
before = set(sys.modules)
from airflow_provider_connect.page.plugin import ConnectPlugin
loaded = sorted(set(sys.modules) - before)
print(json.dumps([loaded, ConnectPlugin.external_views]))
"""


def loaded(**environment: str) -> tuple[list[str], list[dict[str, str]]]:
    ended = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    modules, views = json.loads(ended.stdout.splitlines()[-1])
    return modules, views


def test_every_process_of_airflow_pays_for_three_small_modules_alone() -> None:
    modules, _ = loaded()
    ours = [name for name in modules if name.startswith("airflow_provider_connect")]
    page = "airflow_provider_connect.page"
    assert set(ours) - {"airflow_provider_connect"} == {page, f"{page}.places", f"{page}.plugin"}
    heavy = {"fastapi", "starlette", "httpx", "pyarrow", "pyspark", "pydantic"}
    assert heavy & {name.partition(".")[0] for name in modules} == set()


def test_views_are_where_a_proxy_shows_airflow() -> None:
    _, views = loaded(AIRFLOW__API__BASE_URL="https://example.com/team/airflow/")
    assert {view["href"].partition("?")[0] for view in views} == {"/team/airflow/connect/"}
    _, views = loaded(AIRFLOW__API__BASE_URL="http://localhost:8080")
    assert {view["href"].partition("?")[0] for view in views} == {"/connect/"}
    assert len({view["url_route"] for view in views}) == len(views) == 4
