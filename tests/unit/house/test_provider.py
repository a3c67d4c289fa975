from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from packaging.requirements import Requirement

from airflow_provider_connect import sinks, sources
from airflow_provider_connect.provider_info import get_provider_info
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.sinks.opensearch import OpenSearchSink

PACKAGE = "airflow-provider-connect"


def test_the_provider_info_matches_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_the_entry_point_returns_the_provider_info() -> None:
    points = entry_points(group="apache_airflow_provider")
    ours = [point for point in points if point.value.startswith("airflow_provider_connect")]
    assert [point.load()() for point in ours] == [get_provider_info()]


def test_the_provider_info_imports_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import airflow_provider_connect.provider_info; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) - sys.stdlib_module_names == {"airflow_provider_connect"}


@pytest.mark.parametrize("room", ["operators", "hooks"])
def test_modules_in_the_provider_info_exist(room: str) -> None:
    for entry in get_provider_info()[room]:
        for module in entry["python-modules"]:
            importlib.import_module(module)


def test_connection_form_comes_without_importing_the_hook() -> None:
    manager = ProvidersManager()
    fields = {
        name.removeprefix("extra__mixpanel__"): info
        for name, info in manager.connection_form_widgets.items()
        if name.startswith("extra__mixpanel__")
    }
    assert set(fields) == {"project_id", "region", "timestamps", "limits", "proxy", "ca_bundle"}
    assert fields["proxy"].is_sensitive
    behaviour = manager.field_behaviours["mixpanel"]
    assert behaviour["relabeling"]["password"] == "Service account secret"


def test_hook_is_found_by_its_connection_type() -> None:
    hook: Any = ProvidersManagerTaskRuntime().hooks["mixpanel"]
    assert hook is not None
    assert hook.package_name == PACKAGE
    assert hook.hook_name == "Mixpanel"


def test_every_connector_has_its_integration() -> None:
    info = get_provider_info()
    integrations = [entry["integration-name"] for entry in info["integrations"]]
    connectors = [path.stem for room in (sources, sinks) for path in Path(room.__path__[0]).glob("[!_]*.py")]
    assert set(connectors) >= {"mixpanel", "x_search", "delta", "bigquery", "kafka"}
    assert [
        name
        for name in connectors
        if not any(name.replace("_", " ") in integration.lower() for integration in integrations)
    ] == []
    assert [entry["integration-name"] for entry in info["operators"]] == integrations


def test_airflow_knows_the_schemes_of_the_sinks_assets() -> None:
    schemes = ProvidersManagerTaskRuntime().asset_uri_handlers
    assets = (
        DeltaSink(path="/data/lake/events"),
        BigQuerySink(table="my-project.analytics.events"),
        KafkaSink(topic="events"),
        OpenSearchSink(alias="events"),
    )
    assert {sink.asset_uri.partition(":")[0] for sink in assets} <= set(schemes)


def test_versions_of_urllib3_with_decompression_flaws_are_excluded() -> None:
    dependencies = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["dependencies"]
    (urllib3,) = [requirement for line in dependencies if (requirement := Requirement(line)).name == "urllib3"]
    # CVE-2025-66418 and CVE-2025-66471 before 2.6.0, CVE-2026-21441 before 2.6.3, CVE-2026-44432 before 2.7.0.
    assert [flawed for flawed in ("2.3.0", "2.5.0", "2.6.2", "2.6.3") if flawed in urllib3.specifier] == []
    assert "2.7.0" in urllib3.specifier
