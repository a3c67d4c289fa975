"""The sdist holds all; the wheel from it, alone beside all else that is installed: Airflow finds the provider."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
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


EVERY_MODULE = """\
import importlib, pkgutil, airflow_provider_connect as package
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
    print(module.name)
"""

BUILD = "import sys; from hatchling import build; print(build.build_sdist(sys.argv[1]))"


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the clone, as git has it: nothing that a build or a test left there."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    return shutil.copytree(
        ROOT, tmp_path_factory.mktemp("clone") / "tree", ignore=shutil.ignore_patterns(".git", *ignored)
    )


@pytest.fixture(scope="module")
def sdist(tree, tmp_path_factory):
    tools, out = tmp_path_factory.mktemp("tools"), tmp_path_factory.mktemp("sdist")
    pip("install", "--target", str(tools), *project(tree)["build-system"]["requires"])
    env = os.environ | {"PYTHONPATH": str(tools)}
    command = [sys.executable, "-c", BUILD, str(out)]
    ended = subprocess.run(command, env=env, cwd=tree, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    (built,) = out.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(out), str(sdist))
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


def project(tree):
    return tomllib.loads((tree / "pyproject.toml").read_text())


def test_the_sdist_holds_all_that_the_clone_holds(tree, sdist):
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    there = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    assert held - {"PKG-INFO"} == there
    assert {"Makefile", ".ci/run", "tests/conftest.py", f"{PACKAGE}/demo/bqemulator.txt"} <= held


def test_the_wheel_holds_the_package_without_the_demo_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    information = f"{PACKAGE}-{airflow_provider_connect.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {PACKAGE, information}
    ours = {path.relative_to(ROOT) for path in (ROOT / PACKAGE).rglob("*.py")}
    wanted = {path.as_posix() for path in ours if path.parts[1] != "demo"} | {f"{PACKAGE}/py.typed"}
    assert {name for name in names if name.startswith(f"{PACKAGE}/")} == wanted
    assert f"{PACKAGE}/spark/job.py" in names
    assert any(name.endswith("/LICENSE") for name in names)


def test_the_metadata_say_what_a_user_looks_for(installed):
    (distribution,) = importlib.metadata.distributions(path=[str(installed)])
    told = distribution.metadata
    assert {"Documentation", "Source", "Release notes"} <= {url.split(",")[0] for url in told.get_all("Project-URL")}
    classifiers = set(told.get_all("Classifier"))
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= classifiers
    keywords = set(told["Keywords"].split(","))
    assert {"airflow-provider", "spark", "mixpanel", "delta", "bigquery", "kafka"} <= keywords
    assert set(told.get_all("Provides-Extra")) == {
        "local",
        "bigquery",
        "kafka",
        "openlineage",
        "sql",
        "registry",
        "testing",
        "dev",
    }


def test_the_wheel_needs_nothing_of_the_demo(installed, bare_site, bare_python, tmp_path):
    ended = alone(EVERY_MODULE, installed, bare_site, bare_python, tmp_path)
    assert ended.returncode == 0, ended.stderr
    imported = ended.stdout.split()
    assert f"{PACKAGE}.spark.job" in imported
    assert not [name for name in imported if ".demo" in name]


def alone(code, installed, bare_site, bare_python, folder):
    """Run Python with the wheel's package and all else that is installed here, but not the clone."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    env |= {"PYTHONNOUSERSITE": "1", "AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    return subprocess.run(
        [bare_python, "-c", code],
        env=env | {"PYTHONPATH": f"{installed}:{bare_site}"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_airflow_finds_the_provider(installed, bare_site, bare_python, tmp_path):
    ended = alone(LOOK, installed, bare_site, bare_python, tmp_path)
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen["file"] == str(installed / PACKAGE / "__init__.py")
    assert Path(seen["metadata"]) == installed
    assert seen["version"] == airflow_provider_connect.__version__
    assert seen["hook"] == f"{PACKAGE}.hooks.mixpanel.MixpanelHook"
    assert [kind["connection-type"] for kind in seen["connection_types"]] == ["mixpanel", "x"]
