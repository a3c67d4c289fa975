"""The wheel alone, in an environment that has all else: Airflow finds the provider, and the tree does not leak in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import airflow_provider_connect

pytestmark = pytest.mark.slow

ROOT = Path(airflow_provider_connect.__file__).parent.parent
PACKAGE = "airflow_provider_connect"

LOOK = """\
import importlib.metadata, json
from airflow.providers_manager import ProvidersManager
import airflow_provider_connect
manager = ProvidersManager()
provider = manager.providers["airflow-provider-connect"]
hook = manager.hooks["mixpanel"]
print(json.dumps({
    "file": airflow_provider_connect.__file__,
    "version": provider.version,
    "name": provider.data["name"],
    "metadata": str(importlib.metadata.distribution("airflow-provider-connect").locate_file("")),
    "hook": hook.hook_class_name,
    "connection_types": provider.data["connection-types"],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from a copy: setuptools leaves folders beside what it builds, and takes up again what it finds there."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, tree)
    for name in (PACKAGE, "tests", "dags"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip("wheel", "--no-deps", "--wheel-dir", str(out), str(tree))
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", str(target), str(wheel))
    return target


def pip(*arguments):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    information = f"{PACKAGE}-{airflow_provider_connect.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {PACKAGE, information}
    ours = {path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py")}
    assert {name for name in names if name.startswith(f"{PACKAGE}/")} == ours | {
        f"{PACKAGE}/py.typed",
        f"{PACKAGE}/demo/bqemulator.txt",
    }
    assert f"{PACKAGE}/spark/job.py" in names
    assert any(name.endswith("/LICENSE") for name in names)


def test_airflow_finds_the_provider(installed, bare_site, bare_python, tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    env |= {"PYTHONNOUSERSITE": "1", "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    ended = subprocess.run(
        [bare_python, "-c", LOOK],
        env=env | {"PYTHONPATH": f"{installed}:{bare_site}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["file"] == str(installed / PACKAGE / "__init__.py")
    assert Path(seen["metadata"]) == installed
    assert seen["version"] == airflow_provider_connect.__version__
    assert seen["hook"] == f"{PACKAGE}.hooks.mixpanel.MixpanelHook"
    assert [kind["connection-type"] for kind in seen["connection_types"]] == ["mixpanel"]
