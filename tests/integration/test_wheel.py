"""The sdist holds all; the wheel from it, alone beside all else that is installed: Airflow finds the provider."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
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

SHIPPED = {".py", ".txt", ".html", ".css", ".js", ".svg"}

LOOK = """\
import importlib.metadata, json
from airflow.providers_manager import ProvidersManager
import airflow_provider_connect
manager = ProvidersManager()
provider = manager.providers["airflow-provider-connect"]
hook = manager.hooks["mixpanel"]
from airflow.plugins_manager import get_plugin_info
(plugin,) = [each for each in get_plugin_info() if each["name"] == "connect"]
print(json.dumps({
    "file": airflow_provider_connect.__file__,
    "version": provider.version,
    "name": provider.data["name"],
    "metadata": str(importlib.metadata.distribution("airflow-provider-connect").locate_file("")),
    "hook": hook.hook_class_name,
    "connection_types": provider.data["connection-types"],
    "page": [app["url_prefix"] for app in plugin["fastapi_apps"]],
}))
"""


EVERY_MODULE = """\
import importlib, pkgutil, airflow_provider_connect as package
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
    print(module.name)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the clone, as git has it: nothing that a build or a test left there."""
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
    return shutil.copytree(
        ROOT, tmp_path_factory.mktemp("clone") / "tree", ignore=shutil.ignore_patterns(".git", *ignored)
    )


@pytest.fixture(scope="module")
def built(tree, tmp_path_factory):
    """What is uploaded: the sdist, and the wheel that is built from it."""
    tools, out = tmp_path_factory.mktemp("tools"), tmp_path_factory.mktemp("dist")
    pip("install", "--target", str(tools), *project(tree)["build-system"]["requires"])
    env = {"PYTHONPATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1"}  # the tree stays as it is
    run("build", "--no-isolation", "--outdir", str(out), str(tree), env=os.environ | env)
    return out


@pytest.fixture(scope="module")
def sdist(built):
    (found,) = built.glob("*.tar.gz")
    return found


@pytest.fixture(scope="module")
def wheel(built):
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """With the README's own line, only that the wheel comes from here."""
    target = tmp_path_factory.mktemp("installed")
    name = re.findall(r"^pip install (\S+) ", (ROOT / "README.md").read_text(), re.MULTILINE)[0]
    pip("install", "--no-deps", "--no-index", "--find-links", str(wheel.parent), "--target", str(target), name)
    return target


def pip(*arguments):
    run("pip", "--disable-pip-version-check", "--quiet", *arguments)


def run(module, *arguments, env=None):
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def project(tree):
    return tomllib.loads((tree / "pyproject.toml").read_text())


def test_the_sdist_holds_all_that_the_clone_holds(tree, sdist):
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    there = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    assert held - {"PKG-INFO"} == there
    assert {"Makefile", ".ci/run", "tests/conftest.py", "tests/standins/bqemulator.txt"} <= held


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    information = f"{PACKAGE}-{airflow_provider_connect.__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {PACKAGE, information}
    files = (path for path in (ROOT / PACKAGE).rglob("*") if path.suffix in SHIPPED)
    ours = {path.relative_to(ROOT) for path in files}
    pages = {f"{PACKAGE}/pages/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    pages -= {f"{PACKAGE}/pages/{name}" for name in ("changelog.md", "index.md")}
    wanted = {path.as_posix() for path in ours} | {f"{PACKAGE}/py.typed"} | pages
    assert {name for name in names if name.startswith(f"{PACKAGE}/")} == wanted
    assert f"{PACKAGE}/spark/job.py" in names
    assert any(name.endswith("/LICENSE") for name in names)


def test_the_metadata_say_what_a_user_looks_for(installed):
    (distribution,) = importlib.metadata.distributions(path=[str(installed)])
    told = distribution.metadata
    assert {"Documentation", "Issues", "Source", "Release notes"} <= {
        url.split(",")[0] for url in told.get_all("Project-URL")
    }
    classifiers = set(told.get_all("Classifier"))
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.13"} <= classifiers
    keywords = set(told["Keywords"].split(","))
    assert {"airflow-provider", "spark", "mixpanel", "delta", "bigquery", "kafka"} <= keywords
    extras = {"local", "bigquery", "kafka", "opensearch", "sql", "registry", "openlineage", "testing", "dev"}
    assert set(told.get_all("Provides-Extra")) == extras


def test_what_is_uploaded_passes_the_check_of_the_index(sdist, wheel):
    run("twine", "check", "--strict", str(sdist), str(wheel))


def test_the_page_on_the_index_has_the_readme_without_links_that_lead_nowhere_there(installed):
    (distribution,) = importlib.metadata.distributions(path=[str(installed)])
    page = distribution.read_text("METADATA")
    assert all(
        part in page
        for part in ("# airflow-provider-connect", "ConnectOperator(", "docs/usage.md", "## Help to build it")
    )
    assert re.findall(r"\]\((?!https://)|--8<--|docs/images", page) == []


def test_the_wheel_needs_nothing_of_the_clone(installed, bare_site, bare_python, tmp_path):
    ended = alone(EVERY_MODULE, installed, bare_site, bare_python, tmp_path)
    assert ended.returncode == 0, ended.stderr
    imported = ended.stdout.split()
    assert f"{PACKAGE}.spark.job" in imported


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
    assert seen["page"] == ["/connect"]
