"""Makes the tiny connectors known, as if their files lay beside the real ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from airflow_provider_connect import sinks, sources
from tests.equipment.spark.lab import Lab
from tests.equipment.spark.shop import MONDAY, TUESDAY, Shop

CONNECTORS = Path(__file__).parents[2] / "equipment" / "spark" / "connectors"
_loaded: dict[tuple[ModuleType, str], ModuleType] = {}
"""The tiny connectors that a test has imported: making their classes anew for each test takes a tenth of its CPU."""


@pytest.fixture(autouse=True)
def tiny_connectors(monkeypatch: pytest.MonkeyPatch, weak_key_digests: None) -> Iterator[None]:
    for package in (sources, sinks):
        room = package.__name__.rpartition(".")[2]
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(CONNECTORS / room)])
    for (package, name), module in _loaded.items():
        sys.modules[f"{package.__name__}.{name}"] = module
        setattr(package, name, module)
    yield
    for package, name in ((sources, "tiny"), (sources, "growing"), (sinks, "tiny")):
        module = sys.modules.pop(f"{package.__name__}.{name}", None)
        if module is not None:
            _loaded[package, name] = module
        if hasattr(package, name):
            delattr(package, name)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    for date in (MONDAY, TUESDAY):
        shop.order(date, f"signup-{date.day}", f"view-{date.day}")
    return shop
