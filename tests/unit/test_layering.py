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


def core() -> list[str]:
    names = {path.stem for path in ROOT.glob("*.py")} - AIRFLOW_SIDE - {"__init__"}
    return sorted(f"{PACKAGE}.{name}" for name in names)


def airflow_side() -> list[str]:
    return [*modules("operators"), *modules("hooks"), *(f"{PACKAGE}.{name}" for name in sorted(AIRFLOW_SIDE))]


def others(room: str, own: str) -> list[str]:
    return [module for module in modules(room) if module not in (own, f"{PACKAGE}.{room}")]


def load(names: list[str], forbidden: tuple[str, ...]) -> str:
    """Import ``names`` where ``forbidden`` cannot be; return what went wrong, if anything did."""
    code = CODE.format(forbidden=forbidden, modules=names)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr


def rooms(*names: str) -> tuple[str, ...]:
    return tuple(f"{PACKAGE}.{name}" for name in names)


@pytest.mark.parametrize(
    ("names", "forbidden"),
    [
        (core(), ("airflow", "pyspark", *HEAVY, *rooms("sources", "sinks", "spark", "operators", "hooks"))),
        (modules("sources"), ("airflow", "pyspark", *HEAVY, *rooms("sinks", "spark", "operators", "hooks"))),
        (modules("sinks"), ("airflow", "pyspark", *HEAVY, *rooms("sources", "spark", "operators", "hooks"))),
        (modules("spark"), ("airflow", *rooms("operators", "hooks", *AIRFLOW_SIDE))),
        (airflow_side(), ("pyspark", *rooms("spark"))),  # Airflow itself loads some of the heavy ones
    ],
    ids=["core", "sources", "sinks", "spark", "airflow side"],
)
def test_rooms_keep_to_their_walls(names: list[str], forbidden: tuple[str, ...]) -> None:
    assert names
    assert load(names, forbidden) == ""


@pytest.mark.parametrize("room", ["sources", "sinks"])
def test_connectors_do_not_know_each_other(room: str) -> None:
    by_forbidden: dict[tuple[str, ...], list[str]] = {}
    for module in modules(room):
        foreign = [other for other in others(room, module) if not other.rpartition(".")[2].startswith("_")]
        own = module.rpartition(".")[2]
        forbidden = tuple(other for other in foreign if not other.rpartition(".")[2].startswith(f"{own}_"))
        if module != f"{PACKAGE}.{room}" and forbidden:
            by_forbidden.setdefault(forbidden, []).append(module)
    for forbidden, together in by_forbidden.items():  # an interpreter for each module would only take longer
        assert load(together, forbidden) == ""


def test_the_wall_holds() -> None:
    assert "behind the wall: airflow" in load([f"{PACKAGE}.timetables"], ("airflow",))
