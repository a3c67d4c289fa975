"""Tests that the docs agree with the code."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.sources._mixpanel.streams import STREAMS
from airflow_provider_connect.sources._x_search.columns import STREAMS as X_STREAMS
from airflow_provider_connect.stage.counts import LATE_COUNT, LATE_COUNTS

ROOT = Path(__file__).parents[3]


def maker(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_options_is_made_from_the_code():
    assert (ROOT / "docs" / "options.md").read_text() == maker("make_options").page(), "run: make docs"


def test_the_page_of_options_knows_each_rare_option():
    options = maker("make_options")
    connectors = [registry.source_class(name) for name in registry.names("sources")]
    connectors += [registry.sink_class(name) for name in registry.names("sinks")]
    options_by_connector = {connector.__name__: {*connector.model_fields} for connector in connectors}
    assert {*options.RARE} == {*options_by_connector}
    assert all({*names.split()} <= options_by_connector[name] for name, names in options.RARE.items())
    assert {*options.RARE_ANYWHERE.split()} <= set[str]().union(*options_by_connector.values())


@pytest.mark.parametrize("page", ["architecture.md", "mixpanel.md", "recipes.md", "report.md", "x-search.md"])
def test_the_marked_parts_of_pages_are_made_from_the_code(page):
    regions = maker("make_regions")
    assert page in regions.PAGES
    assert (ROOT / "docs" / page).read_text() == regions.page(page), "run: make docs"


def test_the_page_of_recipes_shows_every_recipe():
    names = {path.stem for path in (ROOT / "dags" / "recipes").glob("*.py")} | {"stripe_events"}
    shown = re.findall("made from the code: recipe (.*) -->", (ROOT / "docs" / "recipes.md").read_text())
    assert sorted(shown) == sorted(names)


def test_the_page_of_mixpanel_shows_rows_and_counts_of_every_stream():
    marked = set(re.findall("made from the code: (.*) -->", (ROOT / "docs" / "mixpanel.md").read_text()))
    assert {f"rows {name}" for name in STREAMS} | {"streams"} <= marked
    assert {f"counts {name}" for name, stream in STREAMS.items() if stream.counts} <= marked


def test_the_page_of_x_shows_the_rows_of_every_stream():
    marked = set(re.findall("made from the code: (.*) -->", (ROOT / "docs" / "x-search.md").read_text()))
    assert {f"x rows {name}" for name in X_STREAMS if name != "posts"} | {"x streams"} <= marked


def test_every_count_of_mixpanel_is_described():
    workshop = ROOT / "airflow_provider_connect" / "sources" / "_mixpanel"
    text = "".join(file.read_text() for file in workshop.rglob("*.py"))
    counted = set(re.findall(r'(?:counts\[|_count\()f?"([a-z_]+)', text))
    noted = set(re.findall(r'notes(?:\.append\(| = \[)"([a-z_]+)"', text)) | {*LATE_COUNTS, LATE_COUNT}
    described = {name.partition(".")[0] for stream in STREAMS.values() for name in stream.counts}
    assert {re.sub(r"_\d+_", "_<n>_", name) for name in counted | noted} == described


def test_readme_names_only_targets_and_files_that_exist():
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert commands <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link
    for file in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / file).exists(), file


def test_the_table_of_rooms_has_every_room_and_its_walls():
    lines = maker("make_regions").region("rooms").splitlines()[2:]
    columns = {row[0].strip("`"): row for line in lines for row in [[cell.strip() for cell in line.split("|")[1:-1]]]}
    assert {room for room in columns if not columns[room][1]} == set()
    assert columns["values"][2] == "all but `errors`"
    assert "`clients`" in columns["stage"][2]
    assert "`polling`" in columns["sinks"][2]
    assert "`spark`" in columns["cli"][2]
    assert {room for room, row in columns.items() if "`pyspark`" in row[3]} >= {"spark"}
    assert [*columns].index("spark") > [*columns].index("sources") > [*columns].index("errors")
    package = ROOT / "airflow_provider_connect"
    rooms = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    rooms |= {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    assert rooms - {"provider_info"} <= {*columns}


def test_the_page_of_connectors_names_every_member_of_the_contracts_in_350_lines():
    room = ROOT / "airflow_provider_connect"
    members: set[str] = set()
    for path in (room / "source.py", room / "sink.py", *(room / "capabilities").glob("*.py")):
        for cls in (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)):
            fields = [node.target for node in cls.body if isinstance(node, ast.AnnAssign)]
            names = [node.name for node in cls.body if isinstance(node, ast.FunctionDef)]
            members |= {cls.name, *names, *(field.id for field in fields if isinstance(field, ast.Name))}
    page = (ROOT / "docs" / "connectors.md").read_text()
    words = set(re.findall(r"\w+", page))
    assert {name for name in members if not name.startswith("_")} - words == set(), "docs/connectors.md: name them"
    assert len(page.splitlines()) <= 350
