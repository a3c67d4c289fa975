"""The places that still hold the erased: every file under the root that has an id in it is one of those named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.operators.erase import erase
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.manifest import Manifest, data_file, manifest_file, progress_file, rejects_file
from airflow_provider_connect.stage.poll_plans import PollPlan
from airflow_provider_connect.stage.rejects import Reject, write_rejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import POLLED_PATH
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.delta.lab import KEY, MAY, Lab, age
from tests.equipment.delta.tables import TablesLab

PERSON = "person-2f6c"
SECOND = MAY + ONE_DAY


class Events(MixpanelSource):
    """The lab's stream."""

    @property
    def stream_key(self) -> str:
        return KEY.stream

    def column_names(self) -> None:
        return None


def holding(root: Path) -> list[str]:
    """Return the files in which the person's id stands, in any encoding of Parquet."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and (PERSON.encode() in path.read_bytes() or PERSON in _cells(path)):
            found.append(str(path.relative_to(root)))
    return sorted(found)


def _cells(path: Path) -> str:
    return str(pq.ParquetFile(path).read().to_pylist()) if path.suffix == ".parquet" else ""


def places(root: Path, copies: tuple[str, ...], published: set[str]) -> dict[str, list[str]]:
    """Return the files with the id by the place that names them; a file that none does is under ''."""
    kinds = {
        r".*_connect/attempts/[^/]+/rejects-.*": "rejects",
        rf"{POLLED_PATH}/.*": "days polled for a transform",
        r".*_delta_log/.*": "older versions",
        r"_connect/attempts/[^/]+/manifest\.json": "manifests",
        r"_connect/attempts/[^/]+/.*": "unpublished staged days",
    }
    by_place: dict[str, list[str]] = {}
    for name in holding(root):
        kind = next((kind for pattern, kind in kinds.items() if re.fullmatch(pattern, name)), None)
        if kind is None:
            is_published = any(attempt in name for attempt in published)
            kind = "older versions" if is_published else "unpublished staged days"
        is_named = any(copy.startswith(kind) for copy in copies)
        by_place.setdefault(kind if is_named else "", []).append(name)
    return by_place


def leave_traces(root: Path, staged: Any) -> None:
    """Leave what dead attempts and a killed transform leave: rejects, a plan, rows as they were polled."""
    folder, day = Folder(str(root)), Day(date=SECOND)
    write_rejects(folder, rejects_file("t1-dead", 0, "0"), [Reject(1, "no JSON", PERSON.encode())])
    plan = PollPlan(
        day=day,
        attempt="t8-dead",
        identity="i",
        seen=staged.manifest.seen,
        begun=staged.manifest.day.start,
        resumes=True,
        parts={0: {"cuts": [PERSON]}},
    )
    plan.write(folder)
    polled = Folder(f"{root}/{POLLED_PATH}")
    path = data_file(day, "t9-dead", 0, "0")
    (Path(polled.url) / path).parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": [PERSON]}), Path(polled.url) / path)
    polled.write(progress_file("t9-dead", 0), b"{}")
    manifest = Manifest(day=day, attempt="t9-dead", fingerprint="f", polled=staged.manifest.polled)
    polled.write(manifest_file("t9-dead"), manifest.model_dump_json().encode())


@pytest.mark.parametrize("mode", ["count", "erase"])
def test_every_file_of_a_table_with_the_id_is_in_a_place_that_is_named(tmp_path: Path, mode: Any) -> None:
    lab = Lab(tmp_path / "events").make()
    lab.publish(MAY, [PERSON, "b"], "t1")
    lab.publish(MAY, [PERSON, "c"], "t2")
    dead = lab.stage(SECOND, [PERSON], "t3")
    leave_traces(lab.root, dead)
    done = erase(Events(), lab.sink, [PERSON], column="event", mode=mode, connections={})
    named = places(lab.root, done.copies, {"t1-", "t2-"})
    assert set(named) == {
        "rejects",
        "days polled for a transform",
        "older versions",
        "manifests",
        "unpublished staged days",
    }, (named, done.copies)
    assert str(done).count("\n- ") == len(done.copies)


def test_every_file_of_a_templates_tables_with_the_id_is_in_a_place_that_is_named(tmp_path: Path) -> None:
    lab = TablesLab(tmp_path / "lake").make()
    lab.publish({"signup": [PERSON, "b"], "click": [PERSON]}, "t1")
    lab.publish({"signup": [PERSON]}, "t2")
    dead = lab.stage({"signup": [PERSON]}, "t3", SECOND)
    leave_traces(lab.root, dead)
    done = erase(Events(), lab.sink, [PERSON], column="answer", mode="erase", connections={})
    assert "" not in places(lab.root, done.copies, {"t1-", "t2-"})


def test_a_sweep_and_a_vacuum_clear_the_places_that_they_should(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "events").make()
    lab.publish(MAY, [PERSON, "b"], "t1")
    leave_traces(lab.root, replace(lab.stage(SECOND, [PERSON], "t3")))
    erase(Events(), lab.sink, [PERSON], column="event", mode="erase", connections={})
    age(lab.root)
    lab.sweep()
    left = places(lab.root, tuple(lab.publisher.copies()), {"t1-"})
    assert "unpublished staged days" not in left, "the sweep has deleted them"
    assert "" not in left
