"""What only the real service can prove, since the emulator does it otherwise or not at all; ``make real`` runs this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.errors import ConflictError, StaleError
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import Appender, RowsError
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from tests.equipment.bigquery.bench import SinkBench, bench_of
from tests.equipment.bigquery.fixtures import REAL_PROJECT, Target
from tests.equipment.frozen import MONDAY, SCHEMA, TUESDAY, events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REAL_PROJECT is None, reason="GOOGLE_CLOUD_PROJECT_FOR_TESTS names no project to prove it in"),
]


@pytest.fixture
def bench(bigquery_target: Target, tmp_path: Path) -> SinkBench:
    return bench_of(bigquery_target, tmp_path)


@pytest.fixture
def api(bench: SinkBench) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(bench.connection) as opened:
        yield opened


@pytest.fixture
def numbers(api: BigQueryApi, bench: SinkBench) -> TableRef:
    """A table with the number 1."""
    place = TableRef.parse(bench.sink.table, api.project).sibling("numbers")
    run(api, f"CREATE TABLE {place.sql} (n INT64 NOT NULL, text STRING(3)); INSERT INTO {place.sql} (n) VALUES (1)")
    return place


def run(api: BigQueryApi, sql: str, **options: Any) -> list[dict[str, Any]]:
    return api.query(sql, action="test", labels={"connect": "test"}, **options)[0]


def stored(api: BigQueryApi, place: TableRef) -> list[int]:
    return [row["n"] for row in run(api, f"SELECT n FROM {place.sql} ORDER BY n")]


def test_a_transaction_that_fails_takes_everything_back(api: BigQueryApi, numbers: TableRef) -> None:
    with pytest.raises(ConnectError):
        run(
            api,
            f"BEGIN TRANSACTION; DELETE FROM {numbers.sql} WHERE TRUE; INSERT INTO {numbers.sql} (n) VALUES (2); "
            "SELECT ERROR('made by the test'); COMMIT TRANSACTION",
        )
    assert stored(api, numbers) == [1]


def test_b16_a_transaction_that_meets_another_one_is_aborted_and_known_as_such(
    api: BigQueryApi, numbers: TableRef
) -> None:
    from google.cloud import bigquery

    update = f"UPDATE {numbers.sql} SET n = n + 1 WHERE TRUE"
    session = bigquery.QueryJobConfig(create_session=True)
    first = api.client.query(f"BEGIN TRANSACTION; {update}", job_config=session)
    first.result(timeout=60)
    named = [bigquery.ConnectionProperty("session_id", first.session_info.session_id)]
    with pytest.raises(ConflictError):
        run(api, f"BEGIN TRANSACTION; {update}; COMMIT TRANSACTION")
    again = bigquery.QueryJobConfig(connection_properties=named)
    api.client.query("COMMIT TRANSACTION", job_config=again).result(timeout=60)
    assert stored(api, numbers) == [2]


def test_b11_publishers_of_one_day_at_once_leave_one_of_them_whole(bench: SinkBench) -> None:
    assert bench.preflight() == []
    staged = [bench.stage(MONDAY, events(*[f"run {order}"] * 100), order=order) for order in (1, 2, 3, 4)]
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(bench.publish, each) for each in staged]
    failed = [future.exception() for future in futures if future.exception()]
    assert all(isinstance(error, OvertakenError) for error in failed)
    assert len(failed) == 3
    row = bench.row(MONDAY)
    assert (row.rows, row.generation) == (100, 1)
    assert Counter(bench.rows(MONDAY)) == {row.run.removeprefix("dag/").removesuffix("/task").replace("-", " "): 100}
    assert bench.staging_tables() == [] or failed


def test_confirmations_and_publishes_of_one_day_at_once_leave_one_of_them(bench: SinkBench) -> None:
    assert bench.preflight() == []
    bench.publish(replace(bench.stage(MONDAY, events("a")), answer="a"))

    def confirm(publish: Publish) -> LedgerRow:
        with bench.open() as publisher:
            return publisher.confirm(publish)

    same = [replace(bench.stage(MONDAY, events("a"), order=order), answer="a") for order in (2, 3)]
    others = [bench.stage(MONDAY, events("b"), order=order) for order in (4, 5)]
    with ThreadPoolExecutor(4) as threads:
        futures = [threads.submit(confirm, each) for each in same]
        futures += [threads.submit(bench.publish, each) for each in others]
    failed = [future.exception() for future in futures if future.exception()]
    assert (len(failed), {type(error) for error in failed}) == (3, {OvertakenError})
    (won,) = [future.result() for future in futures if not future.exception()]
    assert bench.row(MONDAY) == won
    assert bench.rows(MONDAY) == ["a" if won.checks else "b"]


def test_b8_a_job_id_is_taken_once(api: BigQueryApi, bench: SinkBench, numbers: TableRef) -> None:
    from google.api_core.exceptions import Conflict

    job = f"connect_test_{numbers.dataset}"
    insert = f"INSERT INTO {numbers.sql} (n) VALUES (2)"
    run(api, insert, job_id=job)
    with pytest.raises(Conflict):
        api.client.query(insert, job_id=job, location=api.location, job_retry=None, retry=None, timeout=60)
    run(api, insert, job_id=job)  # finds the job, and runs nothing
    assert stored(api, numbers) == [1, 2]


def test_b12_a_schema_that_somebody_else_changed_meanwhile_is_not_overwritten(
    api: BigQueryApi, numbers: TableRef
) -> None:
    first, second = (api.client.get_table(numbers.id, timeout=30) for _ in range(2))
    first.description = "first"
    api.call("test", api.client.update_table, first, ["description"])
    second.description = "second"
    with pytest.raises(StaleError):
        api.call("test", api.client.update_table, second, ["description"])


def test_wide_decimals_and_nested_values_go_in_by_storage_write(bench: SinkBench) -> None:
    inner = pa.struct([("a.b", pa.int64()), ("name", pa.string())])
    schema = pa.schema(
        [
            pa.field("wide", pa.decimal256(76, 38)),
            pa.field("s", inner),
            pa.field("l", pa.list_(inner)),
            pa.field("m", pa.map_(pa.string(), pa.int64())),
            pa.field("j", pa.string(), metadata={"json": "checked"}),
        ]
    )
    wide = Decimal("9" * 38 + "." + "9" * 38)
    one = {"a.b": 1, "name": "🎉"}
    values: list[list[Any]] = [[wide, None], [one, None], [[one, one], []], [[("k", 1)], []], ['{"a":[1]}', None]]
    table = pa.table([pa.array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema)
    sink = bench.having(schema)
    assert sink.preflight() == []
    assert sink.publish(sink.stage(MONDAY, table)).rows == 2
    first, second = sink.query("SELECT * FROM {table} ORDER BY wide IS NULL")
    stored_one = {"a_b_xb5c3222649": 1, "name": "🎉"}
    expected = {"wide": wide, "s": stored_one, "l": [stored_one] * 2, "m": [{"key": "k", "value": 1}], "j": {"a": [1]}}
    assert {name: first[name] for name in expected} == expected
    assert {name: second[name] for name in expected} == {"wide": None, "s": None, "l": [], "m": [], "j": None}


@pytest.mark.parametrize("options", [{}, {"write_mode": "merge", "key": ("n",)}])
def test_b14_a_table_that_requires_a_partition_filter_is_written_in_every_mode(
    bench: SinkBench, options: dict[str, Any]
) -> None:
    sink = bench.having(**options)
    assert sink.preflight() == []
    sink.query("ALTER TABLE {table} SET OPTIONS (require_partition_filter = TRUE)")
    sink.publish(sink.stage(MONDAY, events("a", "b")))
    assert sink.preflight() == []
    sink.publish(sink.stage(MONDAY, events("c", "d"), order=2))
    assert sink.rows(MONDAY) == ["c", "d"]
    with pytest.raises(ConfigError, match="without a filter"):
        sink.query("SELECT event FROM {table}")


def test_required_columns_stay_required_and_take_no_null(bench: SinkBench, api: BigQueryApi) -> None:
    assert bench.preflight() == []
    bench.publish(bench.stage(MONDAY, events("a")))
    assert {field.name: field.mode for field in bench.table().schema}["event"] == "REQUIRED"
    place = TableRef.parse(bench.sink.table, api.project)
    with pytest.raises(ConnectError):
        run(api, f"INSERT INTO {place.sql} (event, day) VALUES (NULL, DATE '2026-10-05')")
    nullable = bench.having(SCHEMA.set(0, pa.field("event", pa.string())))
    nulls = pa.table([pa.array(["b", None]), pa.array([1, 2])], schema=nullable.schema)
    nullable.publish(nullable.stage(TUESDAY, nulls))
    assert {field.name: field.mode for field in bench.table().schema}["event"] == "NULLABLE"
    bench.holds_exactly(MONDAY, "a")


def test_b3_one_row_of_500_that_does_not_fit_is_named_and_none_is_stored(api: BigQueryApi, numbers: TableRef) -> None:
    texts = ["abc" if number != 123 else "much too long" for number in range(500)]
    batch = pa.record_batch({"n": pa.array(range(500), pa.int64()), "text": texts})
    with Appender(api, numbers, batch.schema) as appender:
        appender.append(batch)
        with pytest.raises(RowsError) as caught:
            appender.close()
    assert [row.offset for row in caught.value.rows] == [123]
    assert isinstance(caught.value, DataError)
    assert "much too long" not in str(caught.value)
    assert stored(api, numbers) == [1]
