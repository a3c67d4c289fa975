"""The walls between the rooms, each tried in a fresh interpreter in which the forbidden module cannot be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_connect

PACKAGE = "airflow_provider_connect"
ROOT = Path(airflow_provider_connect.__file__).parent
AIRFLOW_SIDE = {"offsets", "timetables"}
HEAVY = ("pyarrow", "numpy", "msgspec", "isal", "deltalake", "xxhash")

CONNECTORS = ("sources", "sinks")
TOP = ("spark", "operators", "hooks", *sorted(AIRFLOW_SIDE))

CODE = """
import importlib, sys

class Wall:
    def find_spec(self, name, path=None, target=None):
        for forbidden in {forbidden!r}:
            if name == forbidden or name.startswith(forbidden + "."):
                raise ImportError("behind the wall: " + name)

for name in list(sys.modules):
    assert not name.startswith({forbidden!r}), name
sys.meta_path.insert(0, Wall())
for module in {modules!r}:
    importlib.import_module(module)
"""


def modules(room: str) -> list[str]:
    """Return all modules of a folder, subfolders included."""
    paths = (path.relative_to(ROOT).with_suffix("") for path in (ROOT / room).rglob("*.py"))
    return sorted(".".join((PACKAGE, *path.parts)).removesuffix(".__init__") for path in paths)


def owner(module: str) -> str:
    """Return the connector that a module of a connectors' room belongs to: its face, or a part of its workshop."""
    name, _, _ = module.removeprefix(f"{PACKAGE}.").partition(".")[2].partition(".")
    return name.removeprefix("_")


def connectors() -> list[tuple[str, str]]:
    return [(room, path.stem) for room in CONNECTORS for path in sorted((ROOT / room).glob("[!_]*.py"))]


def core() -> list[str]:
    names = {path.stem for path in ROOT.glob("*.py")} - AIRFLOW_SIDE - {"__init__"}
    return sorted(f"{PACKAGE}.{name}" for name in names)


def airflow_side() -> list[str]:
    return [*modules("operators"), *modules("hooks"), *(f"{PACKAGE}.{name}" for name in sorted(AIRFLOW_SIDE))]


def load(names: list[str], forbidden: tuple[str, ...]) -> str:
    """Import ``names`` where ``forbidden`` cannot be; return what went wrong, if anything did."""
    code = CODE.format(forbidden=forbidden, modules=names)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"{PACKAGE}.{name}" for name in names)


@pytest.mark.parametrize(
    ("names", "forbidden"),
    [
        (core(), ("airflow", "pyspark", *HEAVY, *rooms("sources", "sinks", "polling", "values", "clients", *TOP))),
        (modules("values"), ("airflow", "pyspark", *HEAVY, *rooms("clients", "stage", "polling", *CONNECTORS, *TOP))),
        (modules("clients"), ("airflow", "pyspark", *HEAVY, *rooms("stage", "polling", *CONNECTORS, *TOP))),
        (modules("stage"), ("airflow", "pyspark", *HEAVY, *rooms("polling", *CONNECTORS, *TOP))),
        (modules("polling"), ("airflow", "pyspark", *HEAVY, *rooms(*CONNECTORS, *TOP))),
        (modules("sources"), ("airflow", "pyspark", *HEAVY, *rooms("sinks", *TOP))),
        (modules("sinks"), ("airflow", "pyspark", *HEAVY, *rooms("sources", "polling", *TOP))),
        (modules("spark"), ("airflow", *rooms("operators", "hooks", *AIRFLOW_SIDE))),
        (airflow_side(), ("pyspark", *rooms("spark"))),  # Airflow itself loads some of the heavy ones
    ],
    ids=["core", "values", "clients", "stage", "polling", "sources", "sinks", "spark", "airflow side"],
)
def test_rooms_keep_to_their_walls(names: list[str], forbidden: tuple[str, ...]) -> None:
    assert names
    assert load(names, forbidden) == ""


@pytest.mark.parametrize(("room", "name"), connectors())
def test_connectors_do_not_know_each_other(room: str, name: str) -> None:
    """Neither their faces nor their workshops."""
    own = [module for module in modules(room) if owner(module) == name]
    foreign = {other for _, other in connectors() if other != name}
    assert own
    assert (
        load(own, rooms(*(f"{place}.{mark}{other}" for place in CONNECTORS for other in foreign for mark in ("", "_"))))
        == ""
    )


def test_the_wall_holds() -> None:
    inside = load([f"{PACKAGE}.sinks._kafka.names"], rooms("sinks._kafka"))
    assert "behind the wall: airflow_provider_connect.sinks._kafka" in inside
    assert "behind the wall: airflow" in load([f"{PACKAGE}.timetables"], ("airflow",))
