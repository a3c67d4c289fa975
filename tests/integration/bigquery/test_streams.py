"""Appending to PENDING streams and committing them, with the connection breaking in every way it can (B1-B7)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pyarrow as pa
import pytest

from airflow_provider_connect.clients.bigquery import commit as _bigquery_commit
from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from airflow_provider_connect.clients.bigquery.commit import finalize_and_commit
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.streams import Appender, RowsError, StreamReceipt
from airflow_provider_connect.errors import ConfigError, DataError, RetriableError
from tests.equipment.bigquery.fixtures import connection_to, fresh_table
from tests.equipment.bigquery.proxy import Answer, BigQueryProxy, Cut, Fail, FailAfter, Hold, Lose, Silent
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
ROWS = 1000
SMALL = 8_000  # about eight requests for a batch below


def batch(start: int = 0, rows: int = ROWS, text: str = "") -> pa.RecordBatch:
    numbers = range(start, start + rows)
    return pa.record_batch([pa.array(numbers), pa.array([text or f"text of {n:030d}" for n in numbers])], schema=SCHEMA)


@pytest.fixture
def api(proxy: BigQueryProxy) -> Iterator[BigQueryApi]:
    with BigQueryApi.open(connection_to(proxy), timeout_seconds=4, retry_budget_seconds=16) as opened:
        yield opened


@pytest.fixture
def table(api: BigQueryApi, dataset: str) -> TableRef:
    return fresh_table(api, dataset, [{"name": "n", "type": "INT64"}, {"name": "text", "type": "STRING"}])


def append(api: BigQueryApi, table: TableRef, *batches: pa.RecordBatch, **options: Any) -> StreamReceipt:
    with Appender(api, table, SCHEMA, **{"request_bytes": SMALL} | options) as appender:
        for one in batches:
            appender.append(one)
        return appender.close()


def stored(api: BigQueryApi, table: TableRef) -> list[int]:
    found, _ = api.query(f"SELECT n, text FROM {table.sql} ORDER BY n", action="reading", labels={})
    assert all(row["text"] == f"text of {row['n']:030d}" for row in found)
    return [row["n"] for row in found]


def test_rows_of_several_streams_appear_together(api: BigQueryApi, table: TableRef) -> None:
    receipts = [append(api, table, batch(0), batch(1000)), append(api, table, batch(2000, 7)), append(api, table)]
    assert [receipt.rows for receipt in receipts] == [2000, 7, 0]
    assert receipts[2].name == ""
    assert stored(api, table) == []
    finalize_and_commit(api, table, receipts)
    assert stored(api, table) == list(range(2007))


def test_an_appender_that_ends_early_leaves_nothing_visible(api: BigQueryApi, table: TableRef) -> None:
    def fail_halfway() -> None:
        with Appender(api, table, SCHEMA, request_bytes=SMALL) as appender:
            appender.append(batch())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_halfway()
    assert stored(api, table) == []


def test_a_request_of_the_real_size_is_accepted(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    rows = batch(0, 30_000, "x" * 1000)
    with Appender(api, table, SCHEMA) as appender:
        appender.append(rows)
        receipt = appender.close()
    assert receipt.rows == 30_000
    assert proxy.count("AppendRows") == 4


@pytest.mark.parametrize(
    "fault",
    [
        Lose(),
        Cut(),
        Fail(grpc.StatusCode.UNAVAILABLE),
        Fail(grpc.StatusCode.INTERNAL),
        Fail(grpc.StatusCode.ABORTED),
        Fail(grpc.StatusCode.DEADLINE_EXCEEDED),
        Fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "Exceeds 'AppendRows throughput' quota"),
        FailAfter(grpc.StatusCode.INTERNAL),
        Silent(20),
    ],
    ids=lambda fault: f"{type(fault).__name__}-{getattr(getattr(fault, 'code', None), 'name', '')}",
)
@pytest.mark.parametrize("nth", [1, 4])
def test_b1_b5_an_append_that_fails_is_sent_again_and_stored_once(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, fault: Any, nth: int
) -> None:
    rule = proxy.breaks("AppendRows", fault, nth)
    receipt = append(api, table, batch(0), batch(1000))
    assert rule.seen > nth
    finalize_and_commit(api, table, [receipt])
    assert stored(api, table) == list(range(2000))


def test_b1_several_lost_responses_store_each_row_once(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("AppendRows", Lose(), 2, 3, 7, 12)
    finalize_and_commit(api, table, [append(api, table, batch(0), batch(1000))])
    assert stored(api, table) == list(range(2000))


def error_answer(code: int, *, drop_name: str = "") -> bytes:
    from google.cloud.bigquery_storage_v1 import types
    from google.rpc import status_pb2

    error = status_pb2.Status(code=code, message="made by the test")
    return types.AppendRowsResponse.serialize(types.AppendRowsResponse(error=error))


@pytest.mark.parametrize("code", [10, 13, 14])
def test_b2_a_request_lost_inside_a_connection_leaves_no_gap(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, code: int
) -> None:
    proxy.breaks("AppendRows", Answer(error_answer(code)), 3)  # those behind it get OUT_OF_RANGE from the emulator
    finalize_and_commit(api, table, [append(api, table, batch(0), batch(1000))])
    assert stored(api, table) == list(range(2000))


def test_b2_confirmed_rows_that_are_lost_need_a_new_stream(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    from google.cloud.bigquery_storage_v1 import types

    api.retry_budget_seconds = 1.5
    done = types.AppendRowsResponse(append_result={"offset": 0})
    proxy.breaks("AppendRows", Answer(types.AppendRowsResponse.serialize(done)), 2)
    with pytest.raises(RetriableError, match="has lost rows before row"):
        append(api, table, batch())


def test_a_closed_connection_is_reopened(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    with Appender(api, table, SCHEMA, request_bytes=SMALL) as appender:
        appender.append(batch(0))
        proxy.go_away()
        appender.append(batch(1000))
        receipt = appender.close()
    finalize_and_commit(api, table, [receipt])
    assert stored(api, table) == list(range(2000))


def row_error(index: int) -> bytes:
    from google.cloud.bigquery_storage_v1 import types
    from google.rpc import status_pb2

    answer = types.AppendRowsResponse(
        error=status_pb2.Status(code=3, message="Errors found while processing rows: CANARY"),
        row_errors=[{"index": index, "code": 1, "message": "Field text: invalid value: CANARY Smith"}],
    )
    return types.AppendRowsResponse.serialize(answer)


def test_b3_refused_rows_are_named_by_position_and_column_and_never_shown(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    proxy.breaks("AppendRows", Answer(row_error(2)), 2)
    with pytest.raises(RowsError) as caught:
        append(api, table, batch())
    first = 1000 // 8  # the second of eight requests
    assert abs(caught.value.rows[0].offset - first - 2) < 20
    assert caught.value.rows[0].column == "text"
    assert caught.value.rows[0].reason == "not valid (FIELDS_ERROR)"
    assert "columns: text" in str(caught.value)
    assert re.search("CANARY|Smith", str(caught.value) + repr(caught.value.rows)) is None
    assert stored(api, table) == []


def test_b4_a_row_larger_than_a_request_is_named(api: BigQueryApi, table: TableRef) -> None:
    rows = pa.record_batch([pa.array([1, 2, 3]), pa.array(["a", "b" * 20_000, "c"])], schema=SCHEMA)
    with pytest.raises(DataError, match=r"row 1 has \d+ bytes"):
        append(api, table, rows)


def test_b4_uneven_rows_are_split_until_they_fit(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    texts = ["x" * (6000 if n % 50 == 0 else 10) for n in range(ROWS)]
    rows = pa.record_batch([pa.array(range(ROWS)), pa.array(texts)], schema=SCHEMA)
    assert append(api, table, rows).rows == ROWS
    assert proxy.count("AppendRows") >= sum(map(len, texts)) / SMALL


def test_unanswered_bytes_are_bounded(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    api.retry_budget_seconds, api.timeout_seconds = 1, 0.5
    proxy.breaks("AppendRows", Silent(20))
    with Appender(api, table, SCHEMA, request_bytes=SMALL, in_flight_bytes=2 * SMALL) as appender:
        with pytest.raises(RetriableError):
            appender.append(batch(0, 100_000))
        assert sum(sent.size for sent in appender._unanswered) <= 3 * SMALL


@pytest.mark.parametrize(
    "fault", [Silent(60), Cut(), Fail(grpc.StatusCode.INTERNAL)], ids=lambda fault: type(fault).__name__
)
@pytest.mark.parametrize("method", ["CreateWriteStream", "AppendRows", "FinalizeWriteStream", "BatchCommit"])
def test_b5_a_service_that_never_recovers_is_an_error_within_the_budget(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, method: str, fault: Any
) -> None:
    api.retry_budget_seconds, api.timeout_seconds = 0.8, 0.5
    proxy.breaks(method, fault)
    started = time.monotonic()
    with pytest.raises(RetriableError):
        finalize_and_commit(api, table, [append(api, table, batch())])
    assert time.monotonic() - started < 4


def test_b6_a_lost_response_to_the_commit_is_resolved(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    receipts = [append(api, table, batch(0)), append(api, table, batch(1000))]
    proxy.breaks("BatchCommit", Lose(), 1)
    finalize_and_commit(api, table, receipts)
    assert stored(api, table) == list(range(2000))


def test_b6_a_lost_response_is_resolved_by_the_streams_commit_time(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    receipts = [append(api, table, batch(0))]
    proxy.breaks("BatchCommit", Lose(), 1)
    finalize_and_commit(api, table, receipts)
    assert proxy.count("BatchCommit") == 1
    finalize_and_commit(api, table, receipts)  # again: nothing to do
    assert proxy.count("BatchCommit") == 1
    assert stored(api, table) == list(range(1000))


def test_streams_are_finalized_in_parallel(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    receipts = [append(api, table, batch(1000 * n)) for n in range(4)]
    let_go = threading.Event()
    proxy.breaks("FinalizeWriteStream", Hold(let_go))
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(finalize_and_commit, api, table, receipts)
        try:
            wait_until(
                lambda: proxy.count("FinalizeWriteStream") >= len(receipts),
                "one waits for the answer to another",
                seconds=30,  # the proxy holds a call for 60
            )
        finally:
            let_go.set()
        done.result()
    assert stored(api, table) == list(range(4000))


def test_more_streams_than_one_commit_takes_are_several_commits(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bigquery_commit, "STREAMS_PER_COMMIT", 2)
    receipts = [append(api, table, batch(1000 * n)) for n in range(5)]
    proxy.breaks("BatchCommit", Lose(), 2)
    proxy.breaks("BatchCommit", Fail(grpc.StatusCode.PERMISSION_DENIED), 3)
    with pytest.raises(ConfigError):
        finalize_and_commit(api, table, receipts)
    proxy.heal()
    finalize_and_commit(api, table, receipts)  # the two that are done are not asked for again
    assert proxy.count("BatchCommit") == 4
    assert stored(api, table) == list(range(5000))


def stream_errors(*codes: int) -> bytes:
    from google.cloud.bigquery_storage_v1 import types

    errors = [{"code": code, "entity": "a stream", "error_message": "made by the test"} for code in codes]
    return types.BatchCommitWriteStreamsResponse.serialize(types.BatchCommitWriteStreamsResponse(stream_errors=errors))


def test_b6_streams_committed_already_are_a_success(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    receipts = [append(api, table, batch(0)), append(api, table, batch(1000))]
    proxy.breaks("BatchCommit", Answer(stream_errors(2, 2)))
    finalize_and_commit(api, table, receipts)


@pytest.mark.parametrize(
    ("codes", "error"), [((3,), RetriableError), ((2,), RetriableError), ((14,), ConfigError), ((7,), DataError)]
)
def test_b6_errors_of_some_streams_mean_that_nothing_is_committed(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, codes: tuple[int, ...], error: type[Exception]
) -> None:
    receipts = [append(api, table, batch(0)), append(api, table, batch(1000))]
    proxy.breaks("BatchCommit", Answer(stream_errors(*codes)))
    with pytest.raises(error, match="nothing is committed"):
        finalize_and_commit(api, table, receipts)
    proxy.heal()
    assert stored(api, table) == []


def test_b6_a_stream_that_has_expired_must_be_appended_again(api: BigQueryApi, table: TableRef) -> None:
    gone = StreamReceipt(f"{table.resource_name}/streams/0123456789abcdef", 5)
    api.retry_budget_seconds = 1
    with pytest.raises(RetriableError, match="the table, stream or job of this attempt is gone"):
        finalize_and_commit(api, table, [append(api, table, batch()), gone])
    assert stored(api, table) == []


def test_b7_another_number_of_rows_is_not_committed(api: BigQueryApi, table: TableRef) -> None:
    receipt = append(api, table, batch())
    with pytest.raises(RetriableError, match="BigQuery has 1000 rows, but 1001 were appended"):
        finalize_and_commit(api, table, [StreamReceipt(receipt.name, 1001)])
    assert stored(api, table) == []


def test_a_table_made_a_moment_ago_may_be_unknown_for_a_while(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    proxy.breaks("CreateWriteStream", Fail(grpc.StatusCode.NOT_FOUND), 1, 2)
    proxy.breaks("AppendRows", Fail(grpc.StatusCode.NOT_FOUND), 1)
    finalize_and_commit(api, table, [append(api, table, batch())])
    assert stored(api, table) == list(range(1000))


HIDDEN = Fail(
    grpc.StatusCode.PERMISSION_DENIED, "Permission 'TABLES_UPDATE_DATA' denied on resource 'x' (or it may not exist)."
)


@pytest.mark.parametrize("fault", [Fail(grpc.StatusCode.NOT_FOUND), HIDDEN], ids=["missing", "hidden"])
def test_a_resource_unknown_for_a_while_is_retried(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, fault: Any
) -> None:
    for method, nth in {"CreateWriteStream": 1, "AppendRows": 4, "Finalize": 1, "BatchCommit": 1}.items():
        proxy.breaks(method, fault, nth)
    proxy.breaks("GetWriteStream", fault)
    finalize_and_commit(api, table, [append(api, table, batch(0), batch(1000))])
    assert stored(api, table) == list(range(2000))


def test_a_stream_unknown_in_a_response_is_retried(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("AppendRows", Answer(error_answer(5)), 3)
    finalize_and_commit(api, table, [append(api, table, batch(0), batch(1000))])
    assert stored(api, table) == list(range(2000))


@pytest.mark.parametrize("method", ["CreateWriteStream", "AppendRows", "Finalize", "BatchCommit"])
def test_b14_a_missing_table_of_this_attempt_is_left_to_the_next_attempt(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy, method: str
) -> None:
    api.retry_budget_seconds = 1
    proxy.breaks(method, Fail(grpc.StatusCode.NOT_FOUND))
    with pytest.raises(RetriableError, match="the table, stream or job of this attempt is gone"):
        finalize_and_commit(api, table, [append(api, table, batch())])


def test_rights_that_stay_missing_are_a_config_error(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    api.retry_budget_seconds = 1
    proxy.breaks("CreateWriteStream", HIDDEN)
    with pytest.raises(ConfigError, match="the missing right"):
        append(api, table, batch())


def test_a_commit_lookup_without_success_ends_within_its_budget(
    api: BigQueryApi, table: TableRef, proxy: BigQueryProxy
) -> None:
    receipts = [append(api, table, batch())]
    api.retry_budget_seconds, api.timeout_seconds = 2, 1
    proxy.breaks("BatchCommit", Lose())
    proxy.breaks("GetWriteStream", Cut(), *range(2, 99))
    started = time.monotonic()
    with pytest.raises(RetriableError):
        finalize_and_commit(api, table, receipts)
    assert time.monotonic() - started < 3


def test_rights_that_are_missing_are_not_tried_again(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("AppendRows", Fail(grpc.StatusCode.PERMISSION_DENIED))
    with pytest.raises(ConfigError, match="PERMISSION_DENIED"):
        append(api, table, batch())
    assert proxy.count("AppendRows") <= 8


def test_b13_a_long_quota_is_left_to_airflow(api: BigQueryApi, table: TableRef, proxy: BigQueryProxy) -> None:
    proxy.breaks("CreateWriteStream", Fail(grpc.StatusCode.RESOURCE_EXHAUSTED, "Exceeds quota: streams per day"))
    with pytest.raises(RetriableError) as caught:
        append(api, table, batch())
    assert caught.value.retry_after_seconds == 3600
    assert proxy.count("CreateWriteStream") == 1


def test_another_schema_than_the_streams_is_refused(api: BigQueryApi, table: TableRef) -> None:
    other = pa.record_batch([pa.array([1])], names=["n"])
    with pytest.raises(DataError, match="another schema"):
        append(api, table, other)
