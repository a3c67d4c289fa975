"""The whole BigQuery sink through ``preflight``, ``begin``, ``put`` and ``commit``: modes, rejects, schemas, tables."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery import api as _bigquery_access
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.tables import drop_table
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._bigquery.names import legal_names
from airflow_provider_connect.sinks._bigquery.rejects import REJECT_FIELDS
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import Target, connection_to
from tests.equipment.bigquery.proxy import Answer, BigQueryProxy, Refuse
from tests.equipment.frozen import MONDAY, SCHEMA, TUESDAY, events, intent

pytestmark = pytest.mark.slow

LATER = dt.datetime(2026, 10, 5, 12, tzinfo=dt.UTC)
TIMED = pa.schema([pa.field("event", pa.string()), pa.field("time", pa.timestamp("us", "UTC"))])
KEYED = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("event", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("gone", pa.bool_()),
    ]
)


@pytest.fixture
def bench(bigquery_target: Target, tmp_path: Path) -> SinkBench:
    return bench_of(bigquery_target, tmp_path)


@pytest.fixture
def fronted(bench: SinkBench, proxy: BigQueryProxy) -> SinkBench:
    """The same through the proxy."""
    return SinkBench(bench.sink, connection_to(proxy), bench.reader, bench.root)


def keyed(*rows: tuple[int, str, int, bool]) -> pa.Table:
    return pa.table([pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), KEYED, strict=True)], schema=KEYED)


def timed(*microseconds: int) -> pa.Table:
    names = [f"e{number}" for number in range(len(microseconds))]
    return pa.table([pa.array(names), pa.array(microseconds, TIMED.field("time").type)], schema=TIMED)


GOOD, TOO_LATE = int(LATER.timestamp()) * 1_000_000, 300_000_000_000_000_000  # the latter is the year 11476


# Modes


def test_merge_prefers_the_later_position_in_the_day_and_the_later_day(bench: SinkBench) -> None:
    sink = bench.having(KEYED, write_mode="merge", key=("id",))
    assert sink.preflight() == []
    first, second = keyed((1, "a", 9, False), (2, "b", 9, False)), keyed((1, "later file", 1, False))
    row = sink.publish(sink.stage(TUESDAY, first, second))
    assert row.rows == 2
    assert sink.rows(TUESDAY) == ["b", "later file"]
    sink.publish(sink.stage(MONDAY, keyed((1, "older day", 99, False), (3, "c", 1, False))))
    assert sink.rows(TUESDAY) == ["b", "later file"]
    assert sink.rows(MONDAY) == ["c"]
    sink.publish(sink.stage(TUESDAY, keyed((3, "moved", 0, False)), order=2))
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == ([], ["b", "later file", "moved"])


def test_merge_by_a_version_with_deletions_that_an_older_day_does_not_undo(bench: SinkBench) -> None:
    sink = bench.having(KEYED, write_mode="merge", key=("id",), newest_by="version", delete_where="gone")
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, keyed((1, "a", 5, False), (2, "b", 1, False)), keyed((1, "lower", 4, False))))
    assert sink.rows(MONDAY) == ["a", "b"]
    sink.publish(sink.stage(TUESDAY, keyed((1, "too low", 3, False), (2, "b", 2, True))))
    assert (sink.rows(MONDAY), sink.rows(TUESDAY)) == (["a"], [])
    sink.publish(sink.stage(MONDAY, keyed((1, "a", 5, False), (2, "b", 1, False)), order=2))
    assert sink.rows(MONDAY) == ["a"]


def test_merge_refuses_rows_without_a_key_and_leaves_the_table(bench: SinkBench) -> None:
    sink = bench.having(KEYED, write_mode="merge", key=("id",))
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, keyed((1, "a", 1, False))))
    with pytest.raises(DataError, match=r"1 rows have NULL in the key \(id\)"):
        sink.publish(sink.stage(MONDAY, keyed((None, "b", 1, False)), order=2))  # type: ignore[arg-type]
    assert sink.rows(MONDAY) == ["a"]


def test_append_refuses_a_published_day_before_the_poll_and_in_the_publish(bench: SinkBench) -> None:
    sink = bench.having(write_mode="append")
    assert sink.preflight() == []
    assert sink.publish(sink.stage(MONDAY, events("a"))) == sink.published(MONDAY, intent(1).token)
    with pytest.raises(ConfigError, match="write_mode='append' would double it"):
        sink.published(MONDAY, intent(2).token)
    with pytest.raises(ConfigError, match="write_mode='append' would double it"):
        sink.publish(sink.stage(MONDAY, events("b"), order=2))
    sink.holds_exactly(MONDAY, "a")
    doubling = sink.having(on_published_day="append")
    assert doubling.published(MONDAY, intent(2).token) is None
    assert doubling.publish(doubling.stage(MONDAY, events("b", "c"), order=2)).rows == 3
    sink.holds_exactly(MONDAY, "a", "b", "c")


# Rejects


def rejected(sink: SinkBench) -> list[tuple[Any, ...]]:
    found = sink.query("SELECT * FROM `{beside}__rejects` ORDER BY origin, position")
    assert all(set(row) == {field["name"] for field in REJECT_FIELDS} for row in found)
    return [(row["origin"], row["position"], row["column"], row["generation"]) for row in found]


def test_rejects_of_source_and_sink_are_published_and_deleted_with_their_day(bench: SinkBench) -> None:
    sink = bench.having(TIMED, errors_tolerance="all", max_rejects=2)
    assert sink.preflight() == []
    row = sink.publish(sink.stage(MONDAY, timed(GOOD, TOO_LATE, GOOD), timed(TOO_LATE), rejects=[b"{", b"}"]))
    assert (row.rows, row.counts["rejected"]) == (2, 4)
    assert sink.rows(MONDAY) == ["e0", "e2"]
    assert [one[:3] for one in rejected(sink)] == [
        ("sink", 1, "time"),
        ("sink", 1 << 40, "time"),  # the first row of the second file
        ("source", 0, None),
        ("source", 1, None),
    ]
    records = [one["record"] for one in sink.query("SELECT record FROM `{beside}__rejects` WHERE origin = 'sink'")]
    assert {json.loads(record)["event"] for record in records} == {"e0", "e1"}
    assert sink.publish(sink.stage(MONDAY, timed(TOO_LATE, GOOD), order=2)).rows == 1
    assert rejected(sink) == [("sink", 0, "time", 2)]
    sink.having(errors_tolerance="none").publish(sink.stage(MONDAY, timed(GOOD), order=3))
    assert rejected(sink) == []


def test_a_day_that_has_rows_is_not_replaced_by_rejects_alone(bench: SinkBench) -> None:
    sink = bench.having(TIMED, errors_tolerance="all")
    assert sink.preflight() == []
    row = sink.publish(sink.stage(MONDAY, timed(GOOD)))
    with pytest.raises(DataError, match=r"none of the polled rows, but 1 rows are published"):
        sink.publish(sink.stage(MONDAY, timed(TOO_LATE), order=2, seen=1))
    assert sink.rows(MONDAY) == ["e0"]
    assert sink.row(MONDAY) == row


def test_more_rejects_than_allowed_fail_the_day_in_one_file_or_over_all(bench: SinkBench) -> None:
    sink = bench.having(TIMED, errors_tolerance="all", max_rejects=2)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, timed(GOOD)))
    with pytest.raises(DataError, match=r"more than max_rejects=2: BigQuery cannot hold .*'time'"):
        sink.publish(sink.stage(MONDAY, timed(TOO_LATE, TOO_LATE, TOO_LATE), order=2))
    two = timed(TOO_LATE, TOO_LATE)
    with pytest.raises(DataError, match=r"4 rejects, more than max_rejects=2: .*cannot hold 4 rows"):
        sink.publish(sink.stage(MONDAY, two, two, order=3))
    assert sink.rows(MONDAY) == ["e0"]


def test_without_tolerance_the_first_bad_row_fails_the_day_by_column_and_count(bench: SinkBench) -> None:
    sink = bench.having(TIMED)
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, timed(GOOD)))
    with pytest.raises(DataError, match=r"cannot hold 2 rows of .*'time'") as caught:
        sink.publish(sink.stage(MONDAY, timed(TOO_LATE, GOOD, TOO_LATE), order=2))
    assert "11476" not in str(caught.value)
    assert sink.rows(MONDAY) == ["e0"]


def row_error(index: int) -> Answer:
    from google.cloud.bigquery_storage_v1 import types

    refused = {"index": index, "code": "FIELDS_ERROR", "message": "Field event: made by the test"}
    answer = types.AppendRowsResponse(row_errors=[refused], error={"code": 3, "message": "Errors in rows"})
    return Answer(types.AppendRowsResponse.serialize(answer))


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_b3_one_row_of_500_that_bigquery_refuses(fronted: SinkBench, proxy: BigQueryProxy, tolerance: str) -> None:
    names = [f"e{number:03d}" for number in range(500)]
    sink = fronted.having(errors_tolerance=tolerance)
    assert sink.preflight() == []
    proxy.breaks("AppendRows", row_error(123), 1)
    staged = sink.stage(MONDAY, events(*names))
    if tolerance == "none":
        with pytest.raises(DataError, match=r"BigQuery refuses 1 rows \(columns: event\)\. The first is row 123"):
            sink.publish(staged)
        assert sink.rows(MONDAY) == []
        return
    assert sink.publish(staged).rows == 499
    assert sink.rows(MONDAY) == [name for name in names if name != "e123"]
    assert rejected(sink) == [("sink", 123, "event", 1)]


# Load jobs


def test_load_jobs_publish_staged_files(bench: SinkBench) -> None:
    sink = bench.having(load_method="load_job")
    assert sink.preflight() == []
    row = sink.publish(sink.stage(MONDAY, events("a", "b"), events("c"), rejects=[b"{"]))
    assert (row.rows, row.counts["rejected"]) == (3, 1)
    sink.holds_exactly(MONDAY, "a", "b", "c")
    assert [one[:2] for one in rejected(sink)] == [("source", 0)]
    assert sink.publish(sink.stage(MONDAY, order=2)).rows == 0
    sink.holds_exactly(MONDAY)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        (SCHEMA.append(pa.field("a.b", pa.int64())), {}, "'a.b' has another name in the staging table"),
        (SCHEMA.append(pa.field("s", pa.struct([("x", pa.int64())]))), {}, "'s' is nested"),
        (SCHEMA, {"errors_tolerance": "all"}, "errors_tolerance='all' checks every row"),
        (SCHEMA, {"write_mode": "merge", "key": ("n",)}, "write_mode='merge' needs each row's position"),
    ],
)
def test_rows_that_load_jobs_cannot_take_are_refused_before_the_poll(
    bench: SinkBench, schema: pa.Schema, options: dict[str, Any], message: str
) -> None:
    [problem] = bench.having(schema, load_method="load_job", **options).preflight()
    assert message in problem
    assert "Use load_method='storage_write'" in problem


# Schemas


def test_b12_a_new_column_is_added_refused_or_left_out(bench: SinkBench) -> None:
    assert bench.preflight() == []
    bench.publish(bench.stage(MONDAY, events("a")))
    more = events("b").append_column(pa.field("a.b", pa.int64()), pa.array([7]))
    wider = bench.having(more.schema)
    column = legal_names(["a.b"])["a.b"]
    [problem] = wider.having(schema_contract="freeze").preflight()
    assert f"'{column}' is new (INTEGER)" in problem
    with pytest.raises(DataError, match=column):
        wider.having(schema_contract="freeze").publish(wider.stage(MONDAY, more, order=2))
    discarding = wider.having(schema_contract="discard_columns")
    assert discarding.preflight() == []
    discarding.publish(wider.stage(MONDAY, more, order=3))
    assert [field.name for field in bench.table().schema] == ["event", "n", "day"]
    bench.holds_exactly(MONDAY, "b")
    assert wider.preflight() == []
    wider.publish(wider.stage(TUESDAY, more))
    assert (wider.rows(TUESDAY, column), wider.rows(MONDAY, column)) == ([7], [None])
    bench.publish(bench.stage(TUESDAY, events("narrow again"), order=2))
    assert wider.rows(TUESDAY, column) == [None]


def test_b12_a_changed_type_fails_with_the_column_and_both_types(bench: SinkBench) -> None:
    assert bench.preflight() == []
    bench.publish(bench.stage(MONDAY, events("a")))
    changed = pa.table({"event": ["b"], "n": ["x"]})
    other = bench.having(changed.schema)
    [problem] = other.preflight()
    assert "column 'n' is INTEGER in the table and STRING now" in problem
    with pytest.raises(DataError, match="'n' is INTEGER in the table and STRING now"):
        other.publish(other.stage(MONDAY, changed, order=2))
    bench.holds_exactly(MONDAY, "a")


# Preflight and tables


def test_b14_problems_that_a_person_must_correct_are_reported_before_the_poll(
    bench: SinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bigquery_access, "SETTLE_SECONDS", 0.2)
    dataset = bench.sink.table.partition(".")[0]
    lost = bench.having(table="connect_test_nowhere.events")
    assert "connect_test_nowhere does not exist" in lost.preflight()[0]
    assert "create_disposition='never'" in bench.having(create_disposition="never").preflight()[0]
    assert "BigQuery partitions by DATE" in bench.having(partition_by="event").preflight()[0]
    bench.query(f"CREATE VIEW `{dataset}`.a_view AS SELECT 1 AS n")
    assert "is a VIEW, which cannot be written" in bench.having(table=f"{dataset}.a_view").preflight()[0]
    assert bench.staging_tables() == []
    assert bench.preflight() == []
    assert bench.having(create_disposition="never").preflight() == []


def test_b14_a_day_that_its_partition_would_not_outlive_is_refused(bench: SinkBench) -> None:
    sink = bench.having(partition_expiration_days=30)
    today = dt.datetime.now(dt.UTC).date()
    assert sink.preflight(today) == []
    [problem] = sink.preflight(today, today - dt.timedelta(days=40))
    assert "drops partitions after 30 days" in problem


@pytest.mark.parametrize("call", ["GET .*/datasets/[^/]+$", "GET .*/tables/", "POST .*/tables$", "POST .*/jobs$"])
def test_missing_rights_are_reported_before_the_poll(fronted: SinkBench, proxy: BigQueryProxy, call: str) -> None:
    if call.endswith("/jobs$"):
        assert fronted.preflight() == []
    proxy.breaks(call, Refuse(403, "accessDenied"))
    problems = fronted.preflight()
    assert problems
    assert all("accessDenied" in text and "the missing right" in text for text in problems)


def test_a_new_table_is_made_as_the_options_say(bench: SinkBench) -> None:
    comment = {"comment": "when it happened"}
    schema = TIMED.set(1, TIMED.field("time").with_metadata(comment))
    sink = bench.having(
        schema,
        partition_by="time",
        partition_type="month",
        partition_expiration_days=4000,
        cluster_by=("event", "day"),
        labels={"team": "Growth & Co"},
    )
    assert sink.preflight() == []
    assert sink.publish(sink.stage(MONDAY, timed(GOOD, GOOD))).rows == 2
    assert sink.publish(sink.stage(MONDAY, timed(GOOD), order=2)).rows == 1
    assert sink.rows(MONDAY) == ["e0"]
    table = sink.table()
    partitioning = table.time_partitioning
    assert (partitioning.field, partitioning.type_) == ("time", "MONTH")
    assert partitioning.expiration_ms == 4000 * 86_400_000
    assert table.clustering_fields == ["event", "day"]
    assert table.labels["team"].startswith("growth")
    assert {field.name: field.description for field in table.schema}["time"] == "when it happened"
    assert sink.table("__ledger").description


def test_the_key_is_asked_for_and_jobs_carry_their_labels(fronted: SinkBench, proxy: BigQueryProxy) -> None:
    key = "projects/p/locations/us/keyRings/r/cryptoKeys/k"
    sink = fronted.having(kms_key=key, labels={"team": "growth"})
    assert sink.preflight() == []  # the emulator forgets it, so the requests are looked at
    made = [json.loads(body) for body in bodies(proxy, "POST .*/tables$")]
    assert {body["encryptionConfiguration"]["kmsKeyName"] for body in made} == {key}
    plain = fronted.having(labels={"team": "growth"})
    proxy.calls.clear()
    plain.publish(plain.stage(MONDAY, events("a")))
    [job] = [json.loads(body) for body in bodies(proxy, "POST .*/jobs$")]
    expected = {"team": "growth", "dag_id": "dag", "task_id": "load", "run_id": "run_1", "day": "2026-10-05"}
    labels = job["configuration"]["labels"]
    assert {name: labels[name].partition("_x")[0] for name in expected} == expected


def bodies(proxy: BigQueryProxy, pattern: str) -> list[bytes]:
    return [call.body for call in proxy.calls if call.body and re.search(pattern, call.name)]


# Cost


def test_a_publish_costs_the_same_calls_whatever_its_size_and_the_docs_say_how_many(
    fronted: SinkBench, proxy: BigQueryProxy
) -> None:
    driver = fronted.open()
    assert driver.preflight(SCHEMA, [], "day") == []
    counted = []
    for order, rows in enumerate((10, 30_000), start=1):
        staged = fronted.stage(MONDAY, events(*map(str, range(rows))), order=order)
        proxy.calls.clear()
        fronted.publish(staged, driver)
        names = [call.name for call in proxy.calls]
        rest = [name for name in names if " " in name]
        jobs = [name for name in rest if name.endswith("/jobs")]
        counted.append((len(rest), len(names) - len(rest) - names.count("AppendRows"), len(jobs)))
        assert 1 <= names.count("AppendRows") <= 2  # requests in one call: one for each row group
    driver.close()
    small, large = counted
    assert small == large
    page = " ".join((Path(__file__).parents[3] / "docs/bigquery.md").read_text(encoding="utf-8").split())
    rest_calls, other_grpc_calls, jobs = large
    said = f"a day of one staged file takes {rest_calls} REST calls, {jobs} of which starts a job"
    assert f"{said}, and {other_grpc_calls + 1} gRPC calls" in page


def test_a_dropped_table_with_a_ledger_is_refused(bench: SinkBench) -> None:
    assert bench.preflight() == []
    bench.publish(bench.stage(MONDAY, events("a")))
    with _bigquery_access.BigQueryApi.open(bench.reader) as api:
        drop_table(api, TableRef.parse(bench.sink.table, api.project))
    [problem] = bench.preflight()
    assert "is gone" in problem
    assert "it held 1 days" in problem
