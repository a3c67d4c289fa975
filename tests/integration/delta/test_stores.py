"""A Delta table on object stores: every writer's day is there, whole, also when sixteen write at once."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import attempt_folder
from airflow_provider_connect.stage.storage import Folder
from tests.equipment.bigquery.server import private_key
from tests.equipment.delta import writers as delta_writers
from tests.equipment.frozen import KEY, MONDAY, SCHEMA, TUESDAY, events, freeze
from tests.equipment.stores.object_stores import gcs, gcs_server, s3, s3_server

__all__ = ["gcs", "gcs_server", "private_key", "s3", "s3_server"]

pytestmark = pytest.mark.slow
# fake-gcs-server is built with go, which a machine that runs `make test` need not have.
STORES = [pytest.param("s3", id="s3"), pytest.param("gcs", id="gcs", marks=pytest.mark.campaign)]


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> str:
    """A place for a table in a store."""
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
def sink(place: str) -> DeltaSink:
    sink = DeltaSink(path=place)
    assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
    return sink


def frozen(sink: DeltaSink, day: dt.date, *names: str, **more: Any) -> Any:
    root: Any = sink.path
    return freeze(root, day, events(*names), **more)


def rows(path: str) -> list[tuple[dt.date, str]]:
    found = DeltaTable(path).to_pyarrow_table(columns=["day", "event"]).to_pylist()
    return sorted((row["day"], row["event"]) for row in found)


def expected(day: dt.date, number: int) -> list[tuple[dt.date, str]]:
    return [(day, f"{number}-{i}") for i in range(number)]


def test_sixteen_writers_at_once_lose_no_day(place: str) -> None:
    found = delta_writers.run(place, "own", 16)
    days = {number: MONDAY + dt.timedelta(days=number) for number in range(1, 17)}
    assert sorted(found) == sorted([str(day), 1, number] for number, day in days.items())
    assert set(DeltaSink(path=place).open(KEY, {}).ledger.days()) == set(days.values())
    assert rows(place) == sorted(row for number, day in days.items() for row in expected(day, number))


@pytest.mark.parametrize("writers", [3, pytest.param(16, marks=pytest.mark.campaign)])
def test_writers_of_one_day_at_once_leave_one_whole_answer(place: str, writers: int) -> None:
    found = delta_writers.run(place, "one", writers)
    assert sorted(generation for _, generation, _ in found) == list(range(1, writers + 1))
    last = next(number for _, generation, number in found if generation == writers)
    assert rows(place) == sorted(expected(MONDAY, last))


def test_a_day_is_published_reloaded_and_remembered(sink: DeltaSink) -> None:
    first = sink.open(KEY, {}).commit(frozen(sink, MONDAY, "a", "b"), None, [])
    ledger = sink.open(KEY, {}).ledger
    assert ledger.row(MONDAY) == first
    stale = frozen(sink, MONDAY, "stale", order=2)
    with pytest.raises(RetriableError, match="has published generation 1"):
        sink.open(KEY, {}).commit(stale, None, [])
    assert sink.open(KEY, {}).commit(frozen(sink, MONDAY, "c", order=2, seen=1), None, []).generation == 2
    assert sink.open(KEY, {}).commit(frozen(sink, MONDAY, "a"), None, []) == first
    assert rows(sink.path) == [(MONDAY, "c")]


def test_days_are_merged_in_a_store(place: str) -> None:
    sink = DeltaSink(path=place, write_mode="merge", key=("event",))
    assert sink.open(KEY, {}).preflight(SCHEMA, (), "day") == []
    sink.open(KEY, {}).commit(frozen(sink, TUESDAY, "a", "b"), None, [])
    sink.open(KEY, {}).commit(frozen(sink, MONDAY, "b", "c", "c"), None, [])
    assert rows(place) == [(MONDAY, "c"), (TUESDAY, "a"), (TUESDAY, "b")]
    sink.open(KEY, {}).commit(frozen(sink, TUESDAY, "c", order=2, seen=1), None, [])
    assert rows(place) == [(TUESDAY, "a"), (TUESDAY, "b"), (TUESDAY, "c")]


def test_the_dead_are_swept_by_the_stores_clock_and_the_living_and_published_stay(
    sink: DeltaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = frozen(sink, MONDAY, "a")
    sink.open(KEY, {}).commit(published, None, [])
    dead = frozen(sink, TUESDAY, "dead", order=2)
    folder = Folder(sink.path)
    folder.write(f"{attempt_folder(dead.manifest.attempt)}/progress-00000.json", b"{}")
    folder.write(f"{attempt_folder(published.manifest.attempt)}/progress-00000.json", b"{}")
    assert sink.open(KEY, {}).sweep() == 0
    now = folder.storage_time
    monkeypatch.setattr(Folder, "storage_time", lambda _: now() + dt.timedelta(days=2))
    assert sink.open(KEY, {}).sweep() > 0
    with pytest.raises(RetriableError, match="sweep found it"):
        sink.open(KEY, {}).commit(dead, None, [])
    assert folder.entries([dead.manifest.polled.files[0].path]) == {}
    assert rows(sink.path) == [(MONDAY, "a")]


def test_the_ledger_is_read_from_a_store_in_one_pass(sink: DeltaSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaTable, "transaction_version", None)
    days = [MONDAY + dt.timedelta(days=10 * i) for i in range(12)]  # a checkpoint is made on the way
    for day in days:
        sink.open(KEY, {}).commit(frozen(sink, day, "a"), None, [])
    assert list(sink.open(KEY, {}).ledger.days()) == days
    newest = sink.open(KEY, {}).ledger.newest(days[0], "day")
    assert newest is not None
    assert (newest.generation, newest.rows) == (1, 1)
    assert sink.open(KEY, {}).sweep() == 0


def test_a_lost_log_is_refused_on_a_store_too(sink: DeltaSink) -> None:
    sink.open(KEY, {}).commit(frozen(sink, MONDAY, "a"), None, [])
    Folder(sink.path).delete_folder("_delta_log")
    with pytest.raises(ConfigError, match="is gone"):
        sink.open(KEY, {}).ledger.days()
    assert "is gone" in sink.open(KEY, {}).preflight(SCHEMA, (), "day")[0]


def test_a_staged_file_is_given_a_second_name_that_outlives_the_first(place: str) -> None:
    root = Folder(place)
    root.write("day=2026-10-05/a.parquet", b"rows")
    root.copy("day=2026-10-05/a.parquet", "day=2026-10-05/b.parquet")
    root.delete("day=2026-10-05/a.parquet")
    assert root.read("day=2026-10-05/b.parquet") == b"rows"
    with pytest.raises(FileNotFoundError):
        root.copy("day=2026-10-05/a.parquet", "day=2026-10-05/c.parquet")
