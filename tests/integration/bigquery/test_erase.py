"""Erasing from a BigQuery table: the rows are gone, nobody brings them back, and no other row is touched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._bigquery import erase_list
from airflow_provider_connect.sinks._bigquery.erasing import eraser
from airflow_provider_connect.sinks._bigquery.rejects import ensure_rejects_table
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.testing.bench import DAYS, KEY, MONDAY, SCHEMA, Bench, Target
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.bigquery.bench import bench_of
from tests.equipment.bigquery.fixtures import Target as Table

pytestmark = pytest.mark.slow
TUESDAY, WEDNESDAY = MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY


@pytest.fixture
def bench(google_connection: Connection, dataset: str, tmp_path: Path) -> Iterator[Bench]:
    """Three days, of which two have rows of 'a'."""
    connections = {"google_cloud_default": google_connection}
    sink = BigQuerySink(table=f"{dataset}.events")
    publisher = sink.open(KEY, connections)
    (tmp_path / "stage").mkdir()
    made = Bench(Target(sink, Table(sink, connections).rows, connections), publisher, tmp_path / "stage")
    assert publisher.preflight(SCHEMA, DAYS, "day") == []
    made.publish(made.stage(MONDAY, ["a", "b", "a"], 1))
    made.publish(made.stage(TUESDAY, ["b"], 2))
    made.publish(made.stage(WEDNESDAY, ["a"], 3))
    yield made
    publisher.close()


def erased(bench: Bench, *values: str, kind: Any = "day") -> dict[Any, int]:
    return dict(bench.publisher.erase("event", values, kind).rows)


def generations(bench: Bench) -> dict[Any, tuple[int, int]]:
    return {row.day: (row.generation, row.rows) for row in bench.ledger.between(MONDAY, WEDNESDAY)}


def polled_again(bench: Bench, publish: Publish, newest: LedgerRow | None) -> Publish:
    """Return a publish that has seen what the ledger says now."""
    seen = seen_publish(newest, bench.ledger.erased().version)
    return replace(publish, manifest=publish.manifest.model_copy(update={"seen": seen}))


def test_rows_are_counted_then_erased_and_a_later_load_cannot_bring_them_back(bench: Bench) -> None:
    assert bench.publisher.find("event", ["a", "x"]) == {MONDAY: 2, WEDNESDAY: 1}
    assert generations(bench) == {MONDAY: (1, 3), TUESDAY: (1, 1), WEDNESDAY: (1, 1)}
    assert bench.ledger.erased().version == 0
    stale = bench.stage(TUESDAY, ["a", "b"], 4)

    assert erased(bench, "a") == {MONDAY: 2, WEDNESDAY: 1}
    assert bench.readable() == [(MONDAY, "b"), (TUESDAY, "b")]
    assert generations(bench) == {MONDAY: (2, 1), TUESDAY: (1, 1), WEDNESDAY: (2, 0)}
    row = bench.ledger.row(MONDAY)
    assert row is not None
    assert (row.counts["erased"], row.digest, row.answer, row.run) == (2, None, None, "erase/1")
    assert bench.ledger.erased().matches(["a", "b", None]) == [True, False, False]
    assert bench.publisher.find("event", ["a"]) == {}

    # What was polled before the list is refused, whether the erase touched its day or not; it polls again.
    with pytest.raises(OvertakenError) as caught:
        bench.publish(stale)
    assert caught.value.is_erase
    again = polled_again(bench, bench.stage(TUESDAY, ["b"], 5), bench.ledger.row(TUESDAY))
    assert bench.publish(again).generation == 2

    # Once more changes nothing; somebody else makes the list longer, and both stay on it.
    assert erased(bench, "a") == {}
    assert generations(bench)[MONDAY] == (2, 1)
    assert erased(bench, "b") == {MONDAY: 1, TUESDAY: 1}
    assert bench.ledger.erased().version == 2
    assert bench.ledger.erased().matches(["a", "b"]) == [True, True]
    assert bench.ledger.row(MONDAY).counts["erased"] == 3  # type: ignore[union-attr]


def test_a_restored_fence_row_has_the_erase_lists_version(bench: Bench) -> None:
    erased(bench, "a")
    publisher: Any = bench.publisher
    publisher.api.query(f"DELETE FROM {publisher.tables.ledger.sql} WHERE day IS NULL", action="lose it", labels={})
    assert publisher.preflight(SCHEMA, DAYS, "day") == []
    assert bench.ledger.erased().matches(["a", "b"]) == [True, False]


def test_a_ledger_restored_to_before_an_erase_gets_the_erase_lists_version(bench: Bench) -> None:
    """What is restored is a fence row of that time; the next erase is a version of its own all the same."""
    erased(bench, "a")
    publisher: Any = bench.publisher
    ledger = publisher.tables.ledger.sql
    publisher.api.query(f"UPDATE {ledger} SET erased = NULL WHERE day IS NULL", action="restore it", labels={})
    assert erased(bench, "b") == {MONDAY: 1, TUESDAY: 1}
    assert bench.ledger.erased().matches(["a", "b"]) == [True, True]
    publisher.api.query(f"UPDATE {ledger} SET erased = 1 WHERE day IS NULL", action="restore it", labels={})
    assert publisher.preflight(SCHEMA, DAYS, "day") == []
    assert bench.ledger.erased().matches(["a", "b"]) == [True, True]

    # The table, too: then its rows are counted anew, since they are more than the ledger says.
    restored = f"INSERT INTO {publisher.tables.target.sql} (event, day) SELECT one, DATE '{MONDAY}' FROM UNNEST"
    publisher.api.query(f"{restored}(['a', 'b', 'c']) AS one", action="restore it", labels={})
    assert generations(bench)[MONDAY] == (3, 0)
    assert erased(bench, "a", "b") == {MONDAY: 2}
    assert generations(bench)[MONDAY] == (4, 1)


def test_the_next_erase_finishes_a_killed_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the list, then after the first of two transactions; a list of many values comes in pieces."""
    monkeypatch.setattr(eraser, "MAX_DIGESTS_PER_VERSION", 2)
    monkeypatch.setattr(eraser, "MAX_DAYS_PER_TRANSACTION", 1)
    runs = 0
    run = eraser.TableEraser._run

    def dying(self: Any, script: Any, doing: str) -> dict[str, Any]:
        nonlocal runs
        runs += 1
        if runs in (3, 5):
            raise KeyboardInterrupt
        return run(self, script, doing)

    monkeypatch.setattr(eraser.TableEraser, "_run", dying)
    people = ["a", "x", "y", "z"]
    with pytest.raises(KeyboardInterrupt):
        erased(bench, *people)
    assert bench.ledger.erased().matches(people) == [True] * 4
    assert bench.ledger.erased().version == 2
    assert generations(bench)[MONDAY] == (1, 3)
    with pytest.raises(KeyboardInterrupt):
        erased(bench, *people)
    assert generations(bench) == {MONDAY: (2, 1), TUESDAY: (1, 1), WEDNESDAY: (1, 1)}
    assert erased(bench, *people) == {WEDNESDAY: 1}
    assert bench.readable() == [(MONDAY, "b"), (TUESDAY, "b")]


def test_a_table_by_the_hour_is_rewritten_within_the_partitions_of_one_job(
    google_connection: Connection, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = BigQuerySink(table=f"{dataset}.hours", partition_by="time", partition_type="hour")
    connections = {"google_cloud_default": google_connection}
    publisher = sink.open(KEY, connections)
    (tmp_path / "stage").mkdir()
    made = Bench(Target(sink, Table(sink, connections).rows, connections), publisher, tmp_path / "stage")
    assert publisher.preflight(SCHEMA, DAYS, "day") == []
    for number, day in enumerate((MONDAY, TUESDAY, WEDNESDAY)):
        made.publish(made.stage(day, ["a", "b"], number))
    monkeypatch.setattr(eraser, "MAX_PARTITIONS_PER_TRANSACTION", 4)
    groups: list[int] = []
    rewritten = eraser.TableEraser._run_erase

    def seen(self: Any, script: Any, counted: Any, token: str) -> bool:
        groups.append(len(counted))
        return rewritten(self, script, counted, token)

    monkeypatch.setattr(eraser.TableEraser, "_run_erase", seen)
    assert erased(made, "a") == {MONDAY: 1, TUESDAY: 1, WEDNESDAY: 1}
    assert groups == [2, 1], "each day may be in two partitions: that of its hour, and that of rows without a time"
    publisher.close()


def test_a_day_published_during_its_erase_is_counted_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run polled under the list, so it brings no such row: its day is left as it is."""
    count = eraser.TableEraser._count

    def overtaken(self: Any, wanted: Any) -> Any:
        counted = count(self, wanted)
        if bench.ledger.row(MONDAY).generation == 1:  # type: ignore[union-attr]
            bench.publish(polled_again(bench, bench.stage(MONDAY, ["b", "c"], 6), bench.ledger.row(MONDAY)))
        return counted

    monkeypatch.setattr(eraser.TableEraser, "_count", overtaken)
    assert erased(bench, "a") == {WEDNESDAY: 1}
    assert generations(bench) == {MONDAY: (2, 2), TUESDAY: (1, 1), WEDNESDAY: (2, 0)}
    assert bench.readable() == [(MONDAY, "b"), (MONDAY, "c"), (TUESDAY, "b")]


def test_a_source_without_the_erased_column_is_refused_with_the_remedy(bench: Bench) -> None:
    """The next preflight says it, before anything is polled; and what it says to do works."""
    erased(bench, "a")
    lacking = SCHEMA.remove(SCHEMA.get_field_index("event"))
    [problem] = bench.publisher.preflight(lacking, DAYS, "day")
    assert "erased by column 'event', which the source's rows do not have" in problem
    publisher: Any = bench.publisher
    for statement in problem[problem.index("DELETE FROM") :].split("; "):
        publisher.api.query(statement, action="do what it says", labels={})
    assert publisher.preflight(lacking, DAYS, "day") == []
    assert bench.ledger.erased().version == 0


def test_a_newer_day_does_not_repeat_the_erase_and_long_scripts_are_split(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day after the last one is published while it counts; and no script may take rows out of three days at once."""
    count, counted = eraser.TableEraser._count, 0
    erased(bench, "x")
    newer = WEDNESDAY + ONE_DAY

    def published(self: Any, wanted: Any) -> Any:
        nonlocal counted
        counted += 1
        found = count(self, wanted)
        if bench.ledger.row(newer) is None:
            bench.publish(polled_again(bench, bench.stage(newer, ["c"], 7), None))
        return found

    monkeypatch.setattr(eraser.TableEraser, "_count", published)
    assert erased(bench, "b") == {MONDAY: 1, TUESDAY: 1}
    assert counted == 2, "once for the days, and once that finds none left"
    sizes: list[int] = []
    rewritten = eraser.TableEraser._run_erase

    def seen(self: Any, script: Any, counted: Any, token: str) -> bool:
        sizes.append(len(counted))
        return rewritten(self, script, counted, token)

    monkeypatch.setattr(eraser.TableEraser, "_run_erase", seen)
    monkeypatch.setattr(eraser, "MAX_SCRIPT_BYTES", 0)
    assert erased(bench, "a") == {MONDAY: 2, WEDNESDAY: 1}
    assert sizes == [1, 1]


def test_rejects_are_named_as_remaining_copies(bench: Bench) -> None:
    publisher: Any = bench.publisher
    [kept] = publisher.copies()
    assert "time travel" in kept, "no table of them"
    place = publisher.tables.rejects
    ensure_rejects_table(publisher.api, place, publisher.tables.target)
    assert publisher.copies() == [kept]
    others = f"('{KEY.connector}', '{KEY.stream}'), ('other', '{KEY.stream}')"
    publisher.api.query(f"INSERT INTO {place.sql} (connector, stream) VALUES {others}", action="reject", labels={})
    rejects, again = publisher.copies()
    assert rejects.startswith(f"rejects (2 rows in {place.id})"), "those of a stream that was renamed, too"
    assert again == kept


def test_staging_tables_are_named_as_remaining_copies(bench: Bench) -> None:
    publisher: Any = bench.publisher
    publisher.begin(bench.stage(TUESDAY, ["a"], 9))
    staged, _ = publisher.copies()
    assert re.match(r"days that are staged and not published \(1 tables: .*__stage_", staged)


def test_a_lost_erase_list_stops_every_load(bench: Bench) -> None:
    erased(bench, "a")
    publisher: Any = bench.publisher
    place = erase_list.erase_list_table(publisher.tables.target)
    publisher.api.query(f"DELETE FROM {place.sql} WHERE TRUE", action="lose it", labels={})
    with pytest.raises(ConfigError, match=r"is not complete in .*__erased\. Restore that table"):
        bench.ledger.erased()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"write_mode": "append"}, "write_mode='append': .* other loads"),
        ({"write_mode": "merge", "key": ("time",)}, "'merge'.* by column 'event', which is not in the key"),
    ],
)
def test_an_erase_that_could_affect_other_rows_is_refused(bench: Bench, options: dict[str, Any], text: str) -> None:
    sink = bench.target.sink.model_copy(update=options)
    publisher = sink.open(KEY, bench.target.connections)
    with pytest.raises(ConfigError, match=text):
        publisher.find("event", ["a"])
    publisher.close()


MERGED = pa.schema([pa.field("event", pa.string()), pa.field("amount", pa.float64()), pa.field("gone", pa.bool_())])


def merged(*rows: tuple[str, float, bool]) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), MERGED, strict=True)], schema=MERGED)


def test_merged_rows_are_erased_by_their_key_and_deleted_keys_with_them(bigquery_target: Table, tmp_path: Path) -> None:
    sink = bench_of(bigquery_target, tmp_path).having(
        MERGED, write_mode="merge", key=("event",), newest_by="amount", delete_where="gone"
    )
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, merged(("a", 1, False), ("b", 1, False), ("x", 1, False))))
    sink.publish(sink.stage(TUESDAY, merged(("a", 2, False), ("c", 2, False), ("x", 2, True), ("y", 2, True))))
    stale = sink.stage(MONDAY, merged(("a", 3, False)), order=2)
    with sink.open() as publisher:
        assert publisher.find("event", ["a", "x"]) == {TUESDAY: 1}
        assert publisher.erase("event", ["a", "x"], "day").rows == {TUESDAY: 1}
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == (["b"], ["c"])
    assert [row["event"] for row in sink.query("SELECT event FROM `{beside}__tombstones`")] == ["y"]
    row = sink.row(TUESDAY)
    assert row is not None
    assert (row.generation, row.rows, row.counts["erased"]) == (2, 1, 1)
    with pytest.raises(OvertakenError):
        sink.publish(stale)


def test_the_newest_merged_snapshot_counts_all_remaining_rows(bigquery_target: Table, tmp_path: Path) -> None:
    """A row that is newer than a later snapshot's stays where it is, with an earlier day: it is one of its rows."""
    sink = bench_of(bigquery_target, tmp_path).having(MERGED, write_mode="merge", key=("event",), newest_by="amount")
    with sink.open() as publisher:
        assert publisher.preflight(MERGED, [Day(date=MONDAY)], "snapshot") == []
    for day, amount in ((MONDAY, 2.0), (TUESDAY, 1.0)):
        with sink.open() as publisher:
            seen = seen_publish(publisher.ledger.newest(day, "snapshot"))
        staged = sink.stage(day, merged(("a", amount, False), ("b", 1, False), ("c", 1, False)), seen=seen)
        assert sink.publish(replace(staged, kind="snapshot")).rows == 3
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == (["a"], ["b", "c"])
    with sink.open() as publisher:
        assert publisher.erase("event", ["a", "b"], "snapshot").rows == {MONDAY: 1, TUESDAY: 1}
        newest = publisher.ledger.newest(TUESDAY, "snapshot")
    assert newest is not None
    assert (newest.day, newest.generation, newest.rows, newest.counts["erased"]) == (TUESDAY, 2, 1, 2)
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == ([], ["c"])


def test_columns_that_cannot_identify_people_are_refused(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="no column 'evnt'; did you mean 'event'"):
        bench.publisher.find("evnt", ["a"])
    with pytest.raises(ConfigError, match=r"'amount' is FLOAT.*, but must be one STRING or whole number"):
        bench.publisher.find("amount", ["a"])
