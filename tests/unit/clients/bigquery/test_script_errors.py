"""What fails inside of a script comes as "Query error: … at [24:9]" with one reason for everything."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.clients.bigquery.api import LONG_WAIT_SECONDS
from airflow_provider_connect.clients.bigquery.errors import (
    QUOTA_SECONDS,
    RATE_SECONDS,
    UNKNOWN_SECONDS,
    ConflictError,
    HiddenError,
    MissingError,
    error_from_result,
)
from airflow_provider_connect.clients.bigquery.messages import parse_message, printable_message
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from tests.equipment.bigquery.server import ROWS, Server, api_at, job

PARTITIONS = "Too many partitions produced by query, allowed 4000, query produces at least 4001 partitions"
NULL = "Required field größe cannot be null"
DENIED = "Access Denied: Table p:d.t: User does not have permission to query table p:d.t"
HIDDEN = f"{DENIED}, or perhaps it does not exist."
GONE = "Not found: Table p:d.t was not found in location EU"
INTERNAL = "An internal error occurred and the request could not be completed. Error: 80038528"
QUEUE = (
    "Resources exceeded during query execution: Too many DML statements outstanding against table p:d.t, limit is 20."
)
LOST = "Transaction is aborted due to concurrent update against table p:d.t. Transaction ID: x"
RATE = "Exceeded rate limits: too many table dml insert operations for this table"
QUOTA = "Quota exceeded: Your table exceeded quota for Number of partition modifications to a column partitioned table"
BILLED = "Query exceeded limit for bytes billed: 10485760. 20971520 or higher required."
FILTER = "Cannot query over table 'p.d.t' without a filter over column(s) 'day' that can be used"
SYNTAX = "Syntax error: Expected end of input but got keyword SELECT"
STRANGE = "The moon is in the seventh house"


def failed(message: str, reason: str = "invalidQuery") -> ConnectError:
    return error_from_result({"reason": reason, "message": message}, "publishing (job connect_1)")


@pytest.mark.parametrize("script", [True, False], ids=["in a script", "by itself"])
@pytest.mark.parametrize(
    ("message", "expected", "retry_after", "advice"),
    [
        (PARTITIONS, ConfigError, None, "partition_type="),
        (NULL, DataError, None, "DROP NOT NULL"),
        (DENIED, ConfigError, None, "the missing right"),
        (HIDDEN, HiddenError, None, "the missing right"),
        (GONE, MissingError, None, "Create it"),
        (INTERNAL, RetriableError, None, "internal error"),
        (QUEUE, RetriableError, RATE_SECONDS, "Too many statements wait for this table"),
        (LOST, ConflictError, None, "Run it again"),
        (RATE, RetriableError, RATE_SECONDS, "Exceeded rate limits"),
        (QUOTA, RetriableError, QUOTA_SECONDS, "refills over hours"),
        (BILLED, ConfigError, None, "maximum_bytes_billed"),
        (FILTER, ConfigError, None, "A retry does not help"),
        (SYNTAX, ConfigError, None, "A retry does not help"),
    ],
)
def test_an_error_inside_a_script_has_the_same_class_as_alone(
    message: str, expected: type[ConnectError], retry_after: float | None, advice: str, *, script: bool
) -> None:
    ours = failed(f"Query error: {message} at [24:9]" if script else message)
    assert type(ours) is expected
    assert getattr(ours, "retry_after_seconds", None) == retry_after
    assert advice in str(ours)
    if script and expected is not ConflictError:
        assert "at [24:9]" in str(ours)


@pytest.mark.parametrize("message", [PARTITIONS, NULL, DENIED, GONE, INTERNAL, QUEUE, RATE, QUOTA, BILLED, FILTER])
def test_a_script_errors_text_is_shown_with_line_and_column(message: str) -> None:
    assert printable_message(f"Query error: {message} at [24:9]") == f"{message} at [24:9]"


def test_line_and_column_are_kept_where_the_text_may_hold_a_value() -> None:
    ours = str(failed("Query error: Bad int64 value: CANARY at [24:9]"))
    assert "BigQuery says invalidQuery at [24:9]" in ours
    assert "CANARY" not in ours


def test_a_statement_inside_a_block_has_the_prefix_twice() -> None:
    assert parse_message(f"Query error: Query error: {NULL} at [3:5] at [24:9]").text == NULL
    assert parse_message(f"400 GET https://bigquery.googleapis.com/x: Query error: {NULL} at [24:9]").text == NULL


@pytest.mark.parametrize("end", [" at [24:9]", ""])
def test_an_unknown_script_error_is_left_to_airflows_retries(end: str) -> None:
    ours = failed(f"Query error: {STRANGE}{end}")
    assert type(ours) is RetriableError
    # Airflow's number of retries is the bound: the task itself does not sleep so long, nor run it again at once.
    assert ours.retry_after_seconds == UNKNOWN_SECONDS > LONG_WAIT_SECONDS
    assert STRANGE not in str(ours)
    assert "If it stays" in str(ours)


@pytest.mark.parametrize(
    "message",
    [
        "Cannot modify table p:d.t as it is being changed concurrently",
        "Invalid snapshot time 1758000000000 for table p:d.t",
        "Invalid state of the transaction",
        "Value of the counter is not known yet",
        "Column statistics are not available at the moment",
        "Field metadata could not be fetched",
        "Duplicate request",
        "Unsupported at this time",
        "Bad gateway",
    ],
)
def test_a_first_word_alone_makes_no_error_of_a_script_final(message: str) -> None:
    assert type(failed(f"Query error: {message} at [24:9]")) is RetriableError


@pytest.mark.parametrize(
    "message",
    [
        FILTER,
        "Cannot coerce expression 'a' to type INT64",
        "Cannot access field x on a value with type STRING",
        "Invalid cast from STRING to ARRAY<INT64>",
        "Invalid date: 'x'",
        "Invalid JSON: a b",
        "Invalid NUMERIC value: x",
        "Value has type STRING which cannot be inserted into column n, which has type INT64",
        "Query column 3 has type STRING which cannot be inserted into column n, which has type INT64",
        "Column n is not present in table p.d.t",
        "Column name n is ambiguous",
        "Field name x does not exist in STRUCT<a INT64>",
        "Inserted row has wrong column count; Has 3, expected 4",
        "Duplicate column name 'n'",
        "Bad int64 value: x",
        "Bad double value: x",
        "Unsupported cast from STRING to x",
        "Division by zero: 1 / 0",
        "UPDATE/MERGE must match at most one source row for each target row",
    ],
)
def test_a_known_error_of_a_statement_is_final(message: str) -> None:
    assert isinstance(failed(f"Query error: {message} at [24:9]"), ConfigError)


@pytest.mark.parametrize("reason", ["seventhHouse", ""])
def test_an_unknown_reason_of_a_script_is_retriable(reason: str) -> None:
    assert type(failed("a message", reason)) is RetriableError


@pytest.mark.parametrize(
    "reason", ["invalid", "invalidQuery", "billingNotEnabled", "responseTooLarge", "notImplemented", "blocked"]
)
def test_a_final_reason_of_a_script_is_a_config_error(reason: str) -> None:
    assert type(failed("a message", reason)) is ConfigError


@pytest.mark.parametrize("reason", ["quotaExceeded", "backendError", "accessDenied"])
def test_a_precise_reason_decides_whatever_the_text_is(reason: str) -> None:
    expected: dict[str, Any] = {"accessDenied": ConfigError}
    assert type(failed(f"Query error: {NULL} at [1:1]", reason)) is expected.get(reason, RetriableError)


def ended(message: str) -> tuple[int, Any]:
    status, body = job("invalidQuery")
    body["status"]["errorResult"]["message"] = message
    return status, body


def ask(server: Server) -> Any:
    with api_at(server.url, budget=30) as api:
        return api.query("DECLARE a INT64; SELECT a", action="asking", labels={}, job_id="a_job")


def test_a_script_with_an_internal_error_is_run_again(server: Server) -> None:
    server.first = [ended(f"Query error: {INTERNAL} at [24:9]"), job(name="a_job_1")]
    server.answer = ROWS
    _, done = ask(server)
    assert done.job_id == "a_job_1"


@pytest.mark.parametrize("message", [STRANGE, PARTITIONS, NULL, DENIED])
def test_a_script_that_lost_a_conflict_is_not_run_again_by_the_query(server: Server, message: str) -> None:
    server.answer = ended(f"Query error: {message} at [24:9]")
    with pytest.raises(ConnectError, match=r"\(job a_job\): BigQuery says invalidQuery.* at \[24:9\]"):
        ask(server)
    assert server.asked == 1
