"""The note beside a frozen day names a staging table: whatever else it names is neither read nor dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.columns.types import make_columns
from airflow_provider_connect.sinks._bigquery.staging import (
    REJECTS_SUFFIX,
    FilledStaging,
    StagingLayout,
    layout_digest,
    new_staging_table,
    reuse_filled,
    staging_prefix,
    staging_table_for,
)
from airflow_provider_connect.stage.manifest import Manifest, PollResult, attempt_folder
from airflow_provider_connect.window import Day
from tests.equipment.bigquery.server import Server, api_at

SCHEMA = pa.schema([("n", pa.int64())])
TARGET = TableRef("connect-test", "d", "events")
ATTEMPT = "0123456789abcdef-1-20260901"
STAGED = staging_table_for(staging_prefix(TARGET), f"{ATTEMPT}-0123456789ab")
REJECTS = STAGED.sibling(f"{STAGED.table}{REJECTS_SUFFIX}")
OURS = {"connect": "staging", "day": "2026-09-01"}


def publish(root: Path) -> Publish:
    day = Day.model_validate({"date": "2026-09-01"})
    manifest = Manifest(day=day, attempt=ATTEMPT, fingerprint="f", polled=PollResult())
    key, intent = StreamKey(connector="mixpanel", stream="export"), Intent(token="t", run="r")
    return Publish(key=key, day=day, intent=intent, manifest=manifest, schema=SCHEMA, stage=str(root))


def making(dataset: str | None = None) -> StagingLayout:
    """Return what a later attempt would stage."""
    made, place = make_columns(SCHEMA), new_staging_table(staging_prefix(TARGET, dataset), ATTEMPT)
    return StagingLayout(place, place.sibling(f"{place.table}{REJECTS_SUFFIX}"), made, made, "storage_write")


def found(server: Server, root: Path, table: str, rejects: str | None, **table_has: Any) -> StagingLayout | None:
    """Leave a note, and return what an attempt takes from it, where every table there is has these properties."""
    made = making()
    note = FilledStaging(table=table, rejects_table=rejects, digest=layout_digest(made), rejects=0, streams=1)
    folder = root / attempt_folder(ATTEMPT)
    folder.mkdir(parents=True)
    (folder / "bigquery.json").write_text(note.model_dump_json())
    reference = {"projectId": "connect-test", "datasetId": "d", "tableId": "t"}
    server.answer = (200, {"tableReference": reference, "type": "TABLE", "schema": {"fields": []}, **table_has})
    with api_at(server.url) as api:
        return reuse_filled(api, publish(root), made)


def test_staging_tables_of_the_same_attempt_are_reused(server: Server, tmp_path: Path) -> None:
    taken = found(server, tmp_path, STAGED.table, REJECTS.table, labels=OURS)
    assert taken is not None
    assert (taken.table, taken.rejects) == (STAGED, REJECTS)


def test_staging_tables_in_a_staging_dataset_are_reused(server: Server, tmp_path: Path) -> None:
    made, folder = making("staging"), tmp_path / attempt_folder(ATTEMPT)
    before = making("staging").table
    note = FilledStaging(table=before.table, rejects_table=None, digest=layout_digest(made), rejects=0, streams=1)
    folder.mkdir(parents=True)
    (folder / "bigquery.json").write_text(note.model_dump_json())
    reference = {"projectId": "connect-test", "datasetId": "staging", "tableId": "t"}
    server.answer = (200, {"tableReference": reference, "type": "TABLE", "schema": {"fields": []}, "labels": OURS})
    with api_at(server.url) as api:
        taken = reuse_filled(api, publish(tmp_path), made)
        assert taken is not None
        assert taken.table == before
        assert reuse_filled(api, publish(tmp_path), making()) is None


@pytest.mark.parametrize(
    ("table", "rejects"),
    [
        ("events", None),
        ("events__ledger", None),
        ("somebody_elses", None),
        ("no table's name", None),
        ("events__stage_", None),
        ("events__stage_another_attempt_0123456789ab", None),
        (STAGED.table.replace("events", "other"), None),
        (REJECTS.table, None),
        (STAGED.table, "events"),
        (STAGED.table, "events__rejects"),
        (STAGED.table, STAGED.table),
    ],
)
def test_a_note_that_names_another_table_is_ignored(
    server: Server, tmp_path: Path, table: str, rejects: str | None
) -> None:
    assert found(server, tmp_path, table, rejects, labels=OURS) is None
    assert server.asked == 0


def test_a_table_without_the_staging_label_is_not_reused(server: Server, tmp_path: Path) -> None:
    assert found(server, tmp_path, STAGED.table, REJECTS.table, labels={"team": "a"}) is None


def test_an_unreadable_note_is_ignored(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / attempt_folder(ATTEMPT)
    folder.mkdir(parents=True)
    (folder / "bigquery.json").write_text(json.dumps({"table": "events"}))
    with api_at(server.url) as api:
        assert reuse_filled(api, publish(tmp_path), making()) is None
