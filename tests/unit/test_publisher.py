"""A publisher names its capabilities: a method that the driver would never call is refused."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.capabilities.staging import StagesByExecutors
from airflow_provider_connect.sink import Publisher


@pytest.mark.parametrize(
    ("method", "capability"),
    [
        ("put", "capabilities.staging.StagesByExecutors"),
        ("confirm", "capabilities.confirming.Confirms"),
        ("erase", "capabilities.erasing.Erases"),
        ("sweep", "capabilities.sweeping.Sweeps"),
        ("note", "capabilities.notes.KeepsNotes"),
    ],
)
def test_a_method_without_its_capability_is_refused_by_name(method: str, capability: str) -> None:
    with pytest.raises(TypeError, match=rf"Old defines {method}\(\): derive it from .*{capability}"):
        type("Old", (Publisher,), {method: lambda *_: None})


def test_a_method_of_a_capability_and_one_of_a_base_pass() -> None:
    steps: dict[str, Any] = {name: lambda *_: None for name in ("begin", "put", "abort")}
    new = type("New", (Publisher, StagesByExecutors), steps)
    assert issubclass(type("Newer", (new,), {"put": lambda *_: None}), StagesByExecutors)
