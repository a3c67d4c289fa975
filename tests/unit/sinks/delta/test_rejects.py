"""What a Delta table still has of what was set aside: of each day's newest answer, whatever became of the log."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.manifest import StagedFile, attempt_folder, manifest_file, rejects_file
from airflow_provider_connect.stage.rejects import DayRejects, Reject, RejectedRecord, rejects_schema, write_rejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import MAY, Lab, age

TWO = [Reject(7, "no JSON", b"{a"), Reject(90, "no event", b"{}")]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "events").make()


def stage(lab: Lab, day: dt.date, token: str, *bad: Reject, rows: tuple[str, ...] = ("a",)) -> Publish:
    publish = lab.stage(day, list(rows), token, attempt=f"{token}-1-{day:%Y%m%d}")
    folder, attempt = Folder(str(lab.root)), publish.manifest.attempt
    # A task that Spark ran twice: the manifest names one of its files.
    write_rejects(folder, rejects_file(attempt, 0, "lost"), list(bad))
    file = write_rejects(folder, rejects_file(attempt, 0, "told"), list(bad))
    polled = publish.manifest.polled.model_copy(
        update={"rejects": (file,) if file else (), "counts": {"rejected": len(bad)}}
    )
    manifest = publish.manifest.model_copy(update={"polled": polled})
    folder.write(manifest_file(attempt), manifest.model_dump_json().encode())
    return dataclasses.replace(publish, manifest=manifest)


def found(lab: Lab, first: dt.date = MAY, last: dt.date | None = None) -> list[tuple[Any, ...]]:
    seen = [days_of(day) for day in lab.publisher.rejects(first, last or first, 10) or ()]
    return [(day.day, day.generation, day.ledger_count, [each.reason for each in records]) for day, records in seen]


def days_of(day: DayRejects) -> tuple[DayRejects, list[RejectedRecord]]:
    return day, list(day.records)


def test_a_record_is_shown_as_it_was_set_aside(lab: Lab) -> None:
    lab.commit(stage(lab, MAY, "aa", *TWO))
    [(day, records)] = [days_of(day) for day in lab.publisher.rejects(MAY, MAY, 10) or ()]
    digest = hashlib.blake2b(b"{a", digest_size=16).hexdigest()
    assert records[0] == RejectedRecord("source", 7, "no JSON", "", digest, b"{a")
    assert len(records) == 2
    assert str(lab.root) in day.location


def test_only_rejects_of_the_newest_answer_count(lab: Lab) -> None:
    lab.commit(stage(lab, MAY, "aa", *TWO))
    lab.commit(stage(lab, MAY + ONE_DAY, "bb", TWO[0]))
    lab.commit(stage(lab, MAY + 2 * ONE_DAY, "cc"))
    stage(lab, MAY + 3 * ONE_DAY, "dd", *TWO)  # never published
    days = (MAY, MAY + 9 * ONE_DAY)
    assert found(lab, *days) == [
        (MAY, 1, 2, ["no JSON", "no event"]),
        (MAY + ONE_DAY, 1, 1, ["no JSON"]),
    ]
    lab.commit(stage(lab, MAY, "ee", TWO[1]))
    lab.commit(stage(lab, MAY + ONE_DAY, "ff"))
    assert found(lab, *days) == [(MAY, 2, 1, ["no event"])]


def test_rejects_outlive_a_sweep_a_vacuum_and_the_log(lab: Lab) -> None:
    lab.commit(stage(lab, MAY, "aa", *TWO))
    age(lab.root, days=30)
    lab.sweep()
    from deltalake import DeltaTable

    DeltaTable(str(lab.root)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert found(lab) == [(MAY, 1, 2, ["no JSON", "no event"])]
    lab.publish(MAY + ONE_DAY, ["b"], "bb")
    lab.clean_log()
    assert found(lab) == [(MAY, 1, None, ["no JSON", "no event"])]


def test_rejects_after_an_erase_are_those_of_the_answer(lab: Lab) -> None:
    lab.commit(stage(lab, MAY, "aa", *TWO, rows=("a", "b")))
    assert lab.publisher.erase("event", ["a"], "day").rows == {MAY: 1}
    assert lab.ledger.row(MAY).generation == 2
    assert found(lab) == [(MAY, 1, 2, ["no JSON", "no event"])]
    lab.publisher.erase("event", ["b"], "day")
    assert found(lab) == [(MAY, 1, 2, ["no JSON", "no event"])]


def test_deleted_rejects_are_still_counted(lab: Lab) -> None:
    publish = stage(lab, MAY, "aa", *TWO)
    lab.commit(publish)
    for file in (lab.root / attempt_folder(publish.manifest.attempt)).glob("rejects-*"):
        file.unlink()
    assert found(lab) == [(MAY, 1, 2, [])]


def test_without_a_manifest_a_record_is_shown_once(lab: Lab) -> None:
    publish = stage(lab, MAY, "aa", *TWO)
    lab.commit(publish)
    (lab.root / manifest_file(publish.manifest.attempt)).write_text("{}")
    assert found(lab) == [(MAY, 1, 2, ["no JSON", "no event"])]


def test_a_record_that_is_not_kept_has_a_digest_alone(lab: Lab) -> None:
    publish = stage(lab, MAY, "aa", *TWO)
    lab.commit(publish)
    [file] = publish.manifest.polled.rejects
    digests = [hashlib.blake2b(record, digest_size=16).hexdigest() for record in (b"{a", b"")]
    values: list[list[Any]] = [[7, 90, 95], ["x", "y", "z"], [digests[0], digests[0], digests[1]], [None, b"", b""]]
    pq.write_table(pa.table(values, schema=rejects_schema()), lab.root / file.path)
    [day] = lab.publisher.rejects(MAY, MAY, 10) or ()
    assert [(each.digest, each.record) for each in day.records] == [
        (digests[0], None),
        (digests[0], None),
        (digests[1], b""),
    ]
    assert isinstance(file, StagedFile)


def test_a_table_of_others_or_none_has_none(tmp_path: Path) -> None:
    assert list(Lab(tmp_path / "none").publisher.rejects(MAY, MAY, 10) or ()) == []
    tables = Lab(tmp_path / "lake" / "{event}")
    assert list(tables.publisher.rejects(MAY, MAY, 10) or ()) == []
