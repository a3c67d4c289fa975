"""Errors of BigQuery become ours by what to do about them, and say nothing they should not."""

from __future__ import annotations

import json

import grpc
import pytest
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.bigquery.errors import (
    QUOTA_SECONDS,
    UNKNOWN_SECONDS,
    ConflictError,
    ExistsError,
    HiddenError,
    MissingError,
    StaleError,
    classify,
    error_from_result,
    missing_as_gone,
)
from airflow_provider_connect.clients.bigquery.messages import printable_message
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError


def rest(status: int, reason: str = "", message: str = "a message", body: bytes | None = None) -> Exception:
    """Return the library's error for an answer as BigQuery sends it."""
    response = requests.Response()
    response.status_code = status
    response.request = requests.Request("POST", "https://bigquery.googleapis.com/bigquery/v2/projects/p/jobs").prepare()
    errors = [{"message": message, "domain": "global", "reason": reason}] if reason else []
    error = {"error": {"code": status, "message": message, "errors": errors}}
    response._content = json.dumps(error).encode() if body is None else body
    return api.from_http_response(response)


@pytest.mark.parametrize(
    ("status", "reason", "expected", "retry_after"),
    [
        (403, "rateLimitExceeded", RetriableError, 30),
        (429, "rateLimitExceeded", RetriableError, 30),
        (400, "jobRateLimitExceeded", RetriableError, 30),
        (429, "", RetriableError, 30),
        (403, "quotaExceeded", RetriableError, QUOTA_SECONDS),
        (500, "internalError", RetriableError, None),
        (400, "jobInternalError", RetriableError, None),
        (502, "badGateway", RetriableError, None),
        (503, "backendError", RetriableError, None),
        (503, "", RetriableError, None),
        (504, "", RetriableError, None),
        (404, "notFound", MissingError, None),
        (404, "", MissingError, None),
        (403, "accessDenied", ConfigError, None),
        (401, "authError", ConfigError, None),
        (401, "", ConfigError, None),
        (403, "", ConfigError, None),
        (400, "invalid", ConfigError, None),
        (400, "invalidQuery", ConfigError, None),
        (400, "", ConfigError, None),
        (403, "billingNotEnabled", ConfigError, None),
        (400, "bytesBilledLimitExceeded", ConfigError, None),
        (409, "duplicate", ExistsError, None),
        (409, "", ExistsError, None),
        (412, "conditionNotMet", StaleError, None),
    ],
)
def test_rest_errors_become_our_classes(
    status: int, reason: str, expected: type[ConnectError], retry_after: float | None
) -> None:
    ours = classify(rest(status, reason), "doing it")
    assert type(ours) is expected
    assert f"{ours}.".startswith(f"doing it: BigQuery says {reason or status}.")
    assert getattr(ours, "retry_after_seconds", None) == retry_after


@pytest.mark.parametrize(
    ("status", "reason", "retry_after"),
    [
        (403, "userRateLimitExceeded", 30),
        (403, "concurrentRequestsLimit", UNKNOWN_SECONDS),
        (403, "seventhHouse", UNKNOWN_SECONDS),
        (404, "seventhHouse", UNKNOWN_SECONDS),
        (409, "concurrentModification", UNKNOWN_SECONDS),
        (400, "seventhHouse", UNKNOWN_SECONDS),
    ],
)
def test_an_unknown_reason_is_retriable_at_any_status(status: int, reason: str, retry_after: float) -> None:
    ours = classify(rest(status, reason), "doing it")
    assert type(ours) is RetriableError
    assert ours.retry_after_seconds == retry_after


@pytest.mark.parametrize("reason", ["accessNotConfigured", "insufficientPermissions", "forbidden"])
def test_a_missing_right_is_a_config_error(reason: str) -> None:
    assert type(classify(rest(403, reason), "doing it")) is ConfigError


def test_a_status_without_reason_decides_over_the_text() -> None:
    assert type(classify(rest(404, "", "Not found: Job p:US.j"), "asking")) is MissingError
    assert type(classify(rest(409, "", "Already Exists: Job p:US.j"), "asking")) is ExistsError


def test_an_exhausted_quota_is_named_in_the_message() -> None:
    ours = classify(rest(403, "quotaExceeded", "Quota exceeded: load jobs per table"), "loading")
    assert "A long-term quota is exhausted and refills over hours" in str(ours)


def test_a_response_that_is_not_json_is_classified_by_its_status() -> None:
    ours = classify(rest(503, body=b"<html>upstream CANARY</html>"), "doing it")
    assert type(ours) is RetriableError


FRONT_END = b"<!DOCTYPE html><html><title>Error 408 (Request Timeout)!!1</title><p>CANARY</html>"


@pytest.mark.parametrize("status", [408, 499])
@pytest.mark.parametrize("body", [None, FRONT_END, b""], ids=["JSON", "HTML", "nothing"])
def test_a_request_that_took_too_long_to_arrive_is_sent_again(status: int, body: bytes | None) -> None:
    ours = classify(rest(status, body=body), "sending rows")
    assert type(ours) is RetriableError
    assert ours.retry_after_seconds is None
    assert "CANARY" not in str(ours)


@pytest.mark.parametrize("status", [402, 410, 418, 425, 498])
def test_an_ambiguous_status_is_left_to_airflows_retries(status: int) -> None:
    ours = classify(rest(status, body=FRONT_END), "doing it")
    assert type(ours) is RetriableError
    assert ours.retry_after_seconds == UNKNOWN_SECONDS


@pytest.mark.parametrize("status", [400, 405, 407, 411, 413, 414, 415, 431, 501])
def test_a_request_that_can_never_succeed_is_a_config_error(status: int) -> None:
    assert type(classify(rest(status, body=b""), "doing it")) is ConfigError


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UNAVAILABLE", RetriableError),
        ("INTERNAL", RetriableError),
        ("ABORTED", RetriableError),
        ("UNKNOWN", RetriableError),
        ("CANCELLED", RetriableError),
        ("DEADLINE_EXCEEDED", RetriableError),
        ("RESOURCE_EXHAUSTED", RetriableError),
        ("NOT_FOUND", MissingError),
        ("PERMISSION_DENIED", ConfigError),
        ("UNAUTHENTICATED", ConfigError),
        ("ALREADY_EXISTS", ExistsError),
        ("INVALID_ARGUMENT", DataError),
        ("FAILED_PRECONDITION", ConfigError),
        ("UNIMPLEMENTED", ConfigError),
    ],
)
def test_grpc_errors_become_our_classes(code: str, expected: type[ConnectError]) -> None:
    ours = classify(api.from_grpc_status(grpc.StatusCode[code], "a message"), "doing it")
    assert type(ours) is expected
    assert f"{ours}.".startswith(f"doing it: BigQuery says {code}.")


def test_short_and_long_exhaustion_have_different_delays() -> None:
    def after(message: str) -> float | None:
        ours = classify(api.from_grpc_status(grpc.StatusCode.RESOURCE_EXHAUSTED, message), "appending")
        assert isinstance(ours, RetriableError)
        return ours.retry_after_seconds

    assert after("Exceeds 'AppendRows throughput' quota") == 30
    assert after("Exceeds 'CreateWriteStream per day' quota") == QUOTA_SECONDS


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (requests.ConnectionError("CANARY"), RetriableError),
        (requests.Timeout("CANARY"), RetriableError),
        (requests.exceptions.ChunkedEncodingError("CANARY"), RetriableError),
        (ConnectionResetError("CANARY"), RetriableError),
        (TimeoutError("CANARY"), RetriableError),
        (auth.TransportError("CANARY"), RetriableError),
        (auth.RefreshError("CANARY", retryable=True), RetriableError),
        (auth.RefreshError("CANARY"), ConfigError),
        (auth.DefaultCredentialsError("CANARY"), ConfigError),
        (auth.MalformedError("CANARY"), ConfigError),
        (ValueError("CANARY"), ConnectError),
        (api.RetryError("CANARY", cause=requests.Timeout("CANARY")), RetriableError),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_without_a_response_become_our_classes(error: Exception, expected: type[ConnectError]) -> None:
    ours = classify(error, "doing it")
    assert type(ours) is expected
    assert "doing it" in str(ours)
    assert "CANARY" not in str(ours)


def test_a_refused_sign_in_shows_its_error_code_only() -> None:
    error = auth.RefreshError(
        "invalid_grant: Invalid JWT Signature.", {"error": "invalid_grant", "assertion": "CANARY"}
    )
    assert "(invalid_grant)" in str(classify(error, "signing in"))
    assert "CANARY" not in str(classify(error, "signing in"))


def test_our_own_errors_are_returned_unchanged() -> None:
    error = DataError("mine")
    assert classify(error, "doing it") is error


@pytest.mark.parametrize(
    "message",
    [
        "Transaction is aborted due to concurrent update against table p:d.t. Transaction ID: x",
        "Could not serialize access to table p:d.t due to concurrent update",
    ],
)
def test_a_lost_transaction_is_a_conflict_by_whatever_status_it_comes(message: str) -> None:
    assert isinstance(classify(rest(400, "invalidQuery", message), "publishing"), ConflictError)
    assert isinstance(classify(rest(500, "internalError", message), "publishing"), ConflictError)
    assert isinstance(error_from_result({"reason": "invalidQuery", "message": message}, "publishing"), ConflictError)


@pytest.mark.parametrize("prefix", ["", "Query error: "])
def test_recently_streamed_rows_are_retried_after_30_minutes(prefix: str) -> None:
    said = "UPDATE or DELETE statement over table p.d.t would affect rows in the streaming buffer"
    result = {"reason": "invalidQuery", "message": f"{prefix}{said}, which is not supported at [24:9]"}
    error = error_from_result(result, "publishing")
    assert isinstance(error, RetriableError)
    assert error.retry_after_seconds == 1800


def test_a_different_location_is_a_config_error_with_the_remedy() -> None:
    message = "Cannot read and write in different locations: source: EU, destination: US"
    assert "in one location" in str(classify(rest(400, "invalid", message), "publishing"))


def test_a_missing_partition_filter_names_its_column() -> None:
    message = (
        "Cannot query over table 'p.d.t' without a filter over column(s) 'day' that can be used for partition "
        "elimination"
    )
    ours = classify(rest(400, "invalidQuery", message), "publishing")
    assert isinstance(ours, ConfigError)
    assert "without a filter over column(s) 'day'" in str(ours)


def test_too_many_queued_statements_are_retriable() -> None:
    message = "Resources exceeded during query execution: Too many DML statements outstanding against table p:d.t"
    assert isinstance(classify(rest(400, "resourcesExceeded", message), "publishing"), RetriableError)


@pytest.mark.parametrize(
    "text",
    [
        "Bad int64 value: CANARY",
        "Could not parse 'CANARY' as INT64 for field f",
        "Could not convert string 'it\\'s CANARY' to INT64",
        "Could not convert string 'never closed CANARY",
        'Error while reading data, error message: JSON parsing error "CANARY" at byte 5',
        "Invalid date: value: CANARY",
        "Authorization: Bearer CANARY",
        "token ya29.CANARY is expired",
        "eyJhbGciOiJSUzI1NiJ9CANARY.x.y",
        "key -----BEGIN PRIVATE KEY----- CANARY",
        "Parser Error LINE 1: SELECT CANARY",
        "Row: CANARY is too large",
        "Value CANARY Smith for field email is too long",
        "CANARY@example.com is not a valid INT64",
        "Invalid timestamp: john CANARY",
        "Failed to parse CANARY@example.com as JSON",
        "Unrecognized name: a b CANARY",
        "Name: CANARY",
        'Syntax error: Unexpected identifier "CANARY" at [1:2]',
        "the user wrote Not found: Table CANARY",
        "Access Denied: Bearer CANARY",
    ],
)
def test_values_and_secrets_in_a_vendors_text_are_not_shown(text: str) -> None:
    assert "CANARY" not in printable_message(text)
    assert "CANARY" not in str(classify(rest(400, "invalid", text), "doing it"))
    assert "CANARY" not in str(classify(api.from_grpc_status(grpc.StatusCode.INVALID_ARGUMENT, text), "doing it"))


@given(st.text(), st.sampled_from(["{} is not valid", "Invalid date: {}", "Could not cast {} as INT64", "{}"]))
def test_a_records_value_is_never_shown_whatever_it_imitates(value: str, text: str) -> None:
    assert printable_message(text.format(value)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Not found: Table p-1:d_2.t3 was not found in location EU",
        "Access Denied: Table p:d.t: User does not have permission to query table p:d.t",
        "Permission 'TABLES_UPDATE_DATA' denied on resource 'projects/p/datasets/d/tables/t' (or it may not exist).",
        "Requested entity was not found. Entity: projects/p/datasets/d/tables/t/streams/s",
        "Quota exceeded: Your table exceeded quota for imports or query appends per table",
        "Exceeded rate limits: too many table update operations for this table",
        "Exceeds 'AppendRows throughput' quota, user_id: project0000005d09b7b76c",
        "Query exceeded limit for bytes billed: 1000000. 10485760 or higher required.",
        "Unrecognized name: amount; Did you mean amounts? at [1:8]",
        "Provided Schema does not match Table p:d.t. Field amount has changed type from INTEGER to STRING",
    ],
)
def test_messages_that_cannot_hold_a_value_are_shown(text: str) -> None:
    assert printable_message(text) == text


def test_the_location_is_shown_when_the_text_is_not() -> None:
    result = {"reason": "invalidQuery", "location": "gs://bucket/a.parquet", "message": "CANARY is no date"}
    text = str(error_from_result(result, "loading (job connect_1)"))
    assert text.startswith("loading (job connect_1): BigQuery says invalidQuery in gs://bucket/a.parquet. ")
    assert "in a b" not in str(error_from_result(result | {"location": "a b CANARY"}, "loading"))


def test_a_hidden_resource_is_classified_as_hidden() -> None:
    message = "Permission 'TABLES_UPDATE_DATA' denied on resource 'projects/p/tables/t' (or it may not exist)."
    assert type(classify(api.from_grpc_status(grpc.StatusCode.PERMISSION_DENIED, message), "appending")) is HiddenError
    message = "Access Denied: Table p:d.t: User does not have permission to query it, or perhaps it does not exist"
    ours = classify(rest(403, "accessDenied", message), "reading")
    assert type(ours) is HiddenError
    assert "Give the connection's account the missing right" in str(ours)


def test_a_missing_resource_of_this_attempt_becomes_gone() -> None:
    with (
        pytest.raises(RetriableError, match="committing: the table, stream or job of this attempt is gone"),
        missing_as_gone("committing"),
    ):
        raise MissingError("x")
    with pytest.raises(HiddenError), missing_as_gone("committing"):
        raise HiddenError("x")


def test_a_column_named_location_is_not_the_datasets_location() -> None:
    for message in ("Column location is not present", "Field location: bad type", "the location of a row is required"):
        assert "in one location" not in str(classify(rest(400, "invalid", message), "publishing"))
