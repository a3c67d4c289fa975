"""The plugin as Airflow loads it: in every process, so it must cost nothing, and under any path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # it loads a whole Airflow

CODE = """
import importlib, json, os, sys
import airflow.plugins_manager
before = set(sys.modules)
from airflow_provider_connect.page import airflow_links, plugin
loaded, views = sorted(set(sys.modules) - before), []
for url in {urls!r}:
    os.environ["AIRFLOW__API__BASE_URL"] = url
    airflow_links.base_path.cache_clear()
    views.append(importlib.reload(plugin).ConnectPlugin.external_views)
print(json.dumps([loaded, views]))
"""
URLS = ("https://example.com/team/airflow/", "http://localhost:8080")


@pytest.fixture(scope="module")
def loaded() -> tuple[list[str], list[list[dict[str, Any]]]]:
    """What loading the plugin loads, and its views under each of the URLs: Airflow itself takes seconds to load."""
    code = CODE.format(urls=URLS)
    env = {name: text for name, text in os.environ.items() if name != "AIRFLOW__API__BASE_URL"}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    modules, views = json.loads(ended.stdout.splitlines()[-1])
    return modules, views


def test_every_process_of_airflow_pays_for_four_small_modules_alone(loaded: tuple[list[str], Any]) -> None:
    modules, _ = loaded
    ours = [name for name in modules if name.startswith("airflow_provider_connect")]
    page = "airflow_provider_connect.page"
    small = {page, f"{page}.airflow_links", f"{page}.plugin", "airflow_provider_connect.timetables"}
    assert set(ours) - {"airflow_provider_connect"} == small
    heavy = {"fastapi", "starlette", "httpx", "pyarrow", "pyspark", "pydantic"}
    assert heavy & {name.partition(".")[0] for name in modules} == set()


def test_views_are_where_a_proxy_shows_airflow(loaded: tuple[Any, list[list[dict[str, str]]]]) -> None:
    _, (behind, plain) = loaded
    assert {view["href"].partition("?")[0] for view in behind} == {"/team/airflow/connect/"}
    assert {view["href"].partition("?")[0] for view in plain} == {"/connect/"}
    assert len({view["url_route"] for view in plain}) == len(plain) == 4
