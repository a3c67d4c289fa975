"""A manifest in a stage into which others write too: it leads to no file that is not its attempt's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.equipment.spark.lab import Lab

Change = Callable[[dict[str, Any], Lab], None]


def name_outside(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["polled"]["files"][0] |= {"path": "../victim", "size_bytes": (lab.root / "victim").stat().st_size}


def name_in_disguise(manifest: dict[str, Any], lab: Lab) -> None:
    path = "day=2026-10-05/../../../victim-00000-a.parquet"
    manifest["polled"]["files"][0] |= {"path": path, "size_bytes": 6}


def name_absolute(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["polled"]["files"][0] |= {"path": str(lab.root / "victim"), "size_bytes": 6}


def name_another_attempt(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["polled"]["files"][0] |= {"path": "day=2026-10-05/bbbb-1-20261005-00000-a.parquet", "size_bytes": 6}


def rejects_outside(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["polled"]["rejects"] = [{"path": "../victim", "rows": 1, "size_bytes": 6}]


def attempt_outside(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["attempt"] = "../../../outside"


def another_day(manifest: dict[str, Any], lab: Lab) -> None:
    manifest["day"]["date"] = "2026-10-06"


@pytest.fixture
def shared(tmp_path: Path) -> Lab:
    """A stage with a day that waits for its publish, beside files of somebody else's."""
    lab = Lab(tmp_path)
    lab.move(sink=["commit:RetriableError"], keeps_stage=False)
    (lab.root / "victim").write_text("victim")
    (lab.root / "victim-00000-a.parquet").write_text("victim")
    (lab.root / "outside").mkdir()
    (lab.root / "outside" / "victim").write_text("victim")
    (lab.stage / "day=2026-10-05" / "bbbb-1-20261005-00000-a.parquet").write_text("victim")
    return lab


CHANGES = [
    name_outside,
    name_in_disguise,
    name_absolute,
    name_another_attempt,
    rejects_outside,
    attempt_outside,
    another_day,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_manifest_that_somebody_changed_deletes_no_file_of_others(
    shared: Lab, change: Change, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads(shared.manifest().read_text())
    change(manifest, shared)
    shared.manifest().write_text(json.dumps(manifest))
    report = shared.move(attempt="2", keeps_stage=False)
    victims = [path for path in shared.root.rglob("*") if path.is_file() and path.read_bytes() == b"victim"]
    assert len(victims) == 4, "a file of somebody else's is gone"
    assert (report.status, shared.polls) == ("published", 2)
    assert "aaaa-1-20261005/manifest.json is ignored" in capsys.readouterr().err


def test_a_manifest_that_nobody_changed_is_published(shared: Lab) -> None:
    assert (shared.move(attempt="2", keeps_stage=False).status, shared.polls) == ("published", 1)
