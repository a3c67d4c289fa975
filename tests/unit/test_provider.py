from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

from airflow_provider_connect.provider_info import get_provider_info

PACKAGE = "airflow-provider-connect"


def test_info_is_valid_for_airflow() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_entry_point_leads_to_it() -> None:
    points = entry_points(group="apache_airflow_provider")
    ours = [point for point in points if point.value.startswith("airflow_provider_connect")]
    assert [point.load()() for point in ours] == [get_provider_info()]


def test_only_the_standard_library_is_read() -> None:
    code = (
        "import sys; before = set(sys.modules); import airflow_provider_connect.provider_info; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) - sys.stdlib_module_names == {"airflow_provider_connect"}


@pytest.mark.parametrize("room", ["operators", "hooks"])
def test_named_modules_exist(room: str) -> None:
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
    assert set(fields) == {"project_id", "region", "timestamps", "proxy"}
    assert fields["proxy"].is_sensitive
    behaviour = manager.field_behaviours["mixpanel"]
    assert behaviour["relabeling"]["password"] == "Service account secret"


def test_hook_is_found_by_its_connection_type() -> None:
    hook: Any = ProvidersManagerTaskRuntime().hooks["mixpanel"]
    assert hook is not None
    assert hook.package_name == PACKAGE
    assert hook.hook_name == "Mixpanel"
