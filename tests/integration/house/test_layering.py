"""The walls between the rooms, each tried in an interpreter in which the forbidden module cannot be imported.

The interpreter is a fork of one that has loaded pydantic and nothing of ours: starting one for each wall takes longer
than all the imports.

The other wall is `lint-imports`, with its contracts in pyproject.toml. It sees imports inside functions and for types,
too. A wall that is broken on purpose is found by both.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import airflow_provider_connect

pytestmark = pytest.mark.slow

PACKAGE = "airflow_provider_connect"
ROOT = Path(airflow_provider_connect.__file__).parent
SETTINGS = Path(__file__).parents[3] / "pyproject.toml"
RUFF = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]["flake8-tidy-imports"]
HEAVY = tuple(RUFF["banned-module-level-imports"])

AIRFLOW_SIDE = (
    "cli",
    "decorators",
    "hooks",
    "offsets",
    "operators",
    "page",
    "pipelines",
    "planning",
    "timetables",
)
CONNECTORS = ("sources", "sinks")
TOP = ("spark", "submit", "testing", *AIRFLOW_SIDE)
CONTRACTS = "the contracts"
AIRFLOW = "Airflow's side"

# What a room may not load: libraries, and rooms of ours. A room that is not there yet is tried once it is.
WALLS = {
    CONTRACTS: ("values", "clients", "polling", "readers", *CONNECTORS, *TOP),
    "capabilities": ("values", "clients", "polling", "readers", *CONNECTORS, *TOP),
    "values": ("clients", "stage", "polling", "readers", *CONNECTORS, *TOP),
    "clients": ("window", "stage", "polling", "readers", *CONNECTORS, *TOP),
    "stage": ("clients", "polling", "readers", "shapes", *CONNECTORS, *TOP),
    "polling": ("readers", "shapes", *CONNECTORS, *TOP),
    "shapes": ("window", "polling", "readers", *CONNECTORS, *TOP),
    "readers": ("values", "window", "sink", "source", "stage", "polling", *CONNECTORS, *TOP),
    "sources": ("sinks", *TOP),  # a Kafka topic of ours is read as its readers read it
    "sinks": ("sources", "polling", "readers", *TOP),
    "submit": ("polling", "readers", *CONNECTORS, "spark", "testing", *AIRFLOW_SIDE),
    "testing": (*CONNECTORS, "spark", "submit", *AIRFLOW_SIDE),
    "spark": (*AIRFLOW_SIDE, "testing"),
    AIRFLOW: ("spark", "testing"),
}
LIBRARIES = dict.fromkeys(WALLS, ("airflow", "pyspark", *HEAVY)) | {
    "testing": ("airflow", "pyspark"),
    "spark": ("airflow",),
    AIRFLOW: ("pyspark",),  # Airflow itself loads some of the heavy ones
}

CODE = """
import importlib, json, os, sys, traceback
import pydantic

class Wall:
    def __init__(self, forbidden):
        self.forbidden = forbidden

    def find_spec(self, name, path=None, target=None):
        for forbidden in self.forbidden:
            if name == forbidden or name.startswith(forbidden + "."):
                raise ImportError("behind the wall: " + name)

def load(modules, forbidden):
    for name in list(sys.modules):
        assert not name.startswith((*forbidden, "airflow_provider_connect")), name
    sys.meta_path.insert(0, Wall(forbidden))
    for module in modules:
        importlib.import_module(module)

for modules, forbidden in json.loads(sys.argv[1]):
    print(json.dumps(modules), flush=True)
    if (child := os.fork()) == 0:
        try:
            load(modules, forbidden)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
        else:
            print(json.dumps(""), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def modules(room: str) -> list[str]:
    """Return the modules of a room, its subfolders included; none if it is not there yet."""
    if room == CONTRACTS:
        files = [path for path in ROOT.glob("[!_]*.py") if path.stem not in AIRFLOW_SIDE]
    else:
        names = AIRFLOW_SIDE if room == AIRFLOW else (room,)
        files = [path for name in names for path in (*(ROOT / name).rglob("*.py"), *ROOT.glob(f"{name}.py"))]
    paths = (path.relative_to(ROOT).with_suffix("") for path in files)
    return sorted(".".join((PACKAGE, *path.parts)).removesuffix(".__init__") for path in paths)


def owner(module: str) -> str:
    """Return the connector that a module of a connectors' room belongs to: its face, or a part of its workshop."""
    name, _, _ = module.removeprefix(f"{PACKAGE}.").partition(".")[2].partition(".")
    return name.removeprefix("_")


def connectors() -> list[tuple[str, str]]:
    return [(room, path.stem) for room in CONNECTORS for path in sorted((ROOT / room).glob("[!_]*.py"))]


def load(tried: list[tuple[list[str], tuple[str, ...]]], folder: Path | None = None) -> list[str]:
    """Import modules where others cannot be, each pair in an interpreter of its own; return what went wrong, or "".

    :param tried: modules to import, and what cannot be.
    :param folder: where a copy of the package lies that is taken instead of this one.
    """
    program = [sys.executable, "-c", CODE, json.dumps(tried)]
    lines = subprocess.run(program, capture_output=True, text=True, check=True, cwd=folder).stdout.splitlines()
    assert [json.loads(line) for line in lines[::2]] == [names for names, _ in tried]
    return [json.loads(line) for line in lines[1::2]]


def rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"{PACKAGE}.{name}" for name in names)


def behind(room: str) -> tuple[str, ...]:
    """Return what a room may not load."""
    return LIBRARIES[room] + rooms(*WALLS[room])


def behind_connector(name: str) -> tuple[str, ...]:
    """Return what a connector may not load of the others: neither their faces nor their workshops."""
    foreign = {other for _, other in connectors() if other != name}
    return rooms(*(f"{place}.{mark}{other}" for place in CONNECTORS for other in foreign for mark in ("", "_")))


ROOMS = [room for room in WALLS if modules(room)]


@pytest.fixture(scope="module")
def errors() -> dict[str, str]:
    """What goes wrong behind the walls of each room, and of each connector."""
    tried = {room: (modules(room), behind(room)) for room in ROOMS}
    for room, name in connectors():
        tried[f"{room}.{name}"] = (parts_of(room, name), behind_connector(name))
    return dict(zip(tried, load(list(tried.values())), strict=True))


def parts_of(room: str, name: str) -> list[str]:
    return [module for module in modules(room) if owner(module) == name]


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_keep_to_their_walls(errors: dict[str, str], room: str) -> None:
    assert errors[room] == ""


def test_every_room_has_walls() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} <= {*WALLS, *AIRFLOW_SIDE}


@pytest.mark.parametrize(("room", "name"), connectors())
def test_connectors_do_not_know_each_other(errors: dict[str, str], room: str, name: str) -> None:
    assert parts_of(room, name)
    assert errors[f"{room}.{name}"] == ""


# A file, what is imported there, how, the contract that forbids it, and what cannot be loaded where that is tried.
AT_ONCE, IN_A_FUNCTION, FOR_TYPES = "import {}", "def broken():\n    import {}", "if TYPE_CHECKING:\n    import {}"
BREACHES = [
    ("values/times.py", rooms("sinks._kafka.topic_names"), AT_ONCE, "Values know errors alone", behind("values")),
    ("sinks/_bigquery/layout.py", rooms("sinks._delta.log"), AT_ONCE, "A workshop", behind_connector("bigquery")),
    ("window.py", rooms("sinks.delta"), AT_ONCE, "Arrows run down", behind(CONTRACTS)),
    ("clients/http/message.py", rooms("stage.rows"), AT_ONCE, "Arrows run down", behind("clients")),
    ("stage/temporary.py", ("airflow",), AT_ONCE, "Airflow is known", behind("stage")),
    ("submit/archive.py", ("pyspark",), AT_ONCE, "PySpark is known", behind("submit")),
    ("clients/http/http_connection.py", rooms("window"), IN_A_FUNCTION, "Clients know no day", ()),
    ("stage/rows.py", rooms("clients.http.http_connection"), IN_A_FUNCTION, "The stage speaks to no system", ()),
    ("source.py", rooms("values.times"), FOR_TYPES, "Contracts know neither", ()),
    ("sinks/_delta/log.py", rooms("polling.tally"), FOR_TYPES, "Sinks do not poll", ()),
    ("spark/put.py", rooms("offsets"), IN_A_FUNCTION, "Spark's side does not know Airflow's", ()),
    ("job.py", rooms("spark.job"), IN_A_FUNCTION, "Nobody imports Spark's side", ()),
    ("polling/dedupe.py", ("pytest",), IN_A_FUNCTION, "Tests' own libraries stay out", ()),
    ("testing/polls.py", ("tests",), IN_A_FUNCTION, "The package does not import its tests", ()),
    ("sources/mixpanel.py", rooms("hooks.mixpanel"), IN_A_FUNCTION, "Arrows run down", ()),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy with all the breaches, and a circle."""
    folder = tmp_path_factory.mktemp("broken")
    for file, (imported,), how, *_ in BREACHES:
        broken(folder, file, how.format(imported))
    broken(folder, "stage/manifest.py", FOR_TYPES.format(f"{PACKAGE}.stage.parquet"))
    return lint(folder)


@pytest.mark.parametrize(("file", "imported", "how", "contract", "forbidden"), BREACHES, ids=[it[0] for it in BREACHES])
def test_a_broken_wall_is_found(
    tmp_path: Path, found: str, file: str, imported: tuple[str], how: str, contract: str, forbidden: tuple[str, ...]
) -> None:
    """By the linter, and by an interpreter where it loads what is imported."""
    module = f"{PACKAGE}.{file.removesuffix('.py').replace('/', '.')}"
    assert f"- {module} -> {imported[0]} (l." in " ".join(section(found, contract).split()), found
    if forbidden:
        broken(tmp_path, file, how.format(imported[0]))
        wall = re.search(r"behind the wall: (\S+)", load([([module], forbidden)], tmp_path)[0])
        assert wall
        assert imported[0].startswith(wall[1])


def test_a_circle_is_found(found: str) -> None:
    circles = section(found, "No imports run in a circle")
    assert "No cycles are allowed in airflow_provider_connect.stage." in circles
    assert re.search(r"- \.\w+ -> \.\w+ \(1 import\)", circles)


def test_walls_that_nobody_broke_are_whole(tmp_path: Path) -> None:
    broken(tmp_path, "window.py", "")
    assert " 0 broken" in lint(tmp_path)


def section(found: str, contract: str) -> str:
    """Return what the linter says about one broken contract."""
    parts = re.split(r"^(.+)\n-+\n", found.partition("Broken contracts")[2], flags=re.MULTILINE)
    return next((text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name.startswith(contract)), "")


def broken(folder: Path, file: str, line: str) -> None:
    """Copy the package and its settings, unless they are there already, and add a line to one file of it."""
    if not (folder / PACKAGE).exists():
        shutil.copytree(ROOT, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SETTINGS, folder)
    with (folder / PACKAGE / file).open("a", encoding="utf-8") as text:
        text.write(f"\n{line}\n")


def lint(folder: Path) -> str:
    program = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--no-logo"]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=folder).stdout
