"""Maps BigQuery's errors to this package's by reason or status.

REST errors carry a reason (https://cloud.google.com/bigquery/docs/error-messages, 2026-11), gRPC errors a status code.
An unknown error is retriable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

from airflow_provider_connect.clients.bigquery.messages import Message, parse_message
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

QUOTA_SECONDS = 3600.0  # BigQuery's long-term quotas refill gradually over a day
RATE_SECONDS = 30.0
STREAMED_SECONDS = 1800.0  # rows that were streamed cannot be changed in a transaction for 30 to 90 minutes
UNKNOWN_SECONDS = 120.0  # longer than a task waits, so Airflow's limited number of retries applies


class MissingError(ConfigError):
    """A project, dataset, table, stream or job does not exist."""


class HiddenError(ConfigError):
    """A resource does not exist or is hidden from the account."""


class ColumnError(ConfigError):
    """A statement names a column that the table lacks or has with another type."""


class ExistsError(ConfigError):
    """The resource to be created exists (409)."""


class ConflictError(RetriableError):
    """A transaction lost against another one and changed nothing."""


class GoneError(RetriableError):
    """A resource that this attempt created is gone or not visible yet."""


class StaleError(RetriableError):
    """Another client changed a table between our read and our change (412)."""


_CONFLICT = re.compile(r"aborted due to concurrent|could not serialize access|concurrent update", re.IGNORECASE)
_STREAMED = re.compile(r"(?i)\bstreaming buffer\b|\brecently streamed\b")
_HIDDEN = re.compile(r"(?i)\bmay not exist\b|\bperhaps it does not exist\b")
_LOCATION = re.compile(
    r"(?i)^(?:cannot (?:read and write in different|process data across) (?:locations|regions)\b|"
    r"location \S+ does not support\b|dataset \S+ (?:was not found|is) in (?:a different )?(?:location|region)\b|"
    r"(?:the )?(?:job|query|dataset|table)(?:'s)? (?:location|region) .*\b(?:match|differ))"
)
_SOON_REASONS = {
    "rateLimitExceeded", "userRateLimitExceeded", "backendError", "internalError", "badGateway", "timeout",
    "tableUnavailable", "stopped",
    "jobBackendError", "jobInternalError", "jobRateLimitExceeded", "resourceInUse", "serviceUnavailable",
}  # fmt: skip
_VAGUE_REASONS = {"", "invalid", "invalidQuery", "badRequest", "resourcesExceeded"}
_QUOTA_REASONS = {"quotaExceeded", "dailyLimitExceeded"}
_DENIED_REASONS = {
    "accessDenied",
    "forbidden",
    "authError",
    "required",
    "insufficientPermissions",
    "accessNotConfigured",
}
_BILLING_REASONS = {"bytesBilledLimitExceeded", "billingTierLimitExceeded"}
_FINAL_REASONS = {
    "invalid", "invalidQuery", "invalidUser", "badRequest", "parseError", "billingNotEnabled", "blocked",
    "attributeError", "responseTooLarge", "resourcesExceeded", "notImplemented", "proxyAuthenticationRequired",
}  # fmt: skip


def _answer_text(reason: str, message: Message, location: str = "") -> str:
    # The location of an error is the file, the column or the part of the request that is wrong.
    location_text = f" in {location}" if re.fullmatch(r"[\w.:/-]{1,200}", location) else ""
    if message.printable:
        return f"BigQuery says {reason}{location_text}: {message.printable.rstrip('.')}"
    return f"BigQuery says {reason}{location_text}" + (f" at {message.position}" if message.position else "")


@contextmanager
def missing_as_gone(action: str) -> Iterator[None]:
    """Replace :class:`MissingError` by :class:`GoneError`, for resources that this attempt created."""
    try:
        yield
    except MissingError:
        raise GoneError(
            f"{action}: the table, stream or job of this attempt is gone (dropped, expired, or not visible yet). "
            "The next try sends the rows again"
        ) from None


def classify(error: BaseException, action: str) -> ConnectError:
    """Convert an error of Google's libraries, ``requests`` or gRPC to a ``ConnectError``."""
    import grpc
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, ConnectError):
        return error
    if isinstance(error, api.RetryError) and error.cause is not None:
        return classify(error.cause, action)
    if isinstance(error, grpc.RpcError) and not isinstance(error, api.GoogleAPICallError):
        error = api.from_grpc_error(error)  # type: ignore[no-untyped-call]
    if isinstance(error, api.GoogleAPICallError):
        return _api_error(error, action)
    if isinstance(error, auth.GoogleAuthError):
        return _auth_error(error, action)
    if isinstance(error, (requests.RequestException, ConnectionError, TimeoutError, json.JSONDecodeError)):
        return RetriableError(
            f"{action}: no response from BigQuery ({type(error).__name__}). If this stays, check the network"
        )
    return ConnectError(f"{action}: unexpected {type(error).__name__}")


def _api_error(error: Any, action: str) -> ConnectError:
    structured = next((detail for detail in error.errors or () if isinstance(detail, dict)), None)
    if structured is None and not isinstance(error.response, requests.Response) and error.grpc_status_code is not None:
        return _grpc_error(error, action)
    return error_from_result({**(structured or {}), "message": error.message}, action, status=int(error.code or 0))


def error_from_result(result: dict[str, Any], action: str, status: int = 0) -> ConnectError:
    """Return the error for a reason of BigQuery's error table.

    :param result: ``reason``, ``message`` and ``location``, as in a finished job's ``errorResult``.
    :param status: status of the HTTP response. 0 for a job.
    """
    reason, message, location = (str(result.get(name) or "") for name in ("reason", "message", "location"))
    parsed = parse_message(message)
    text = f"{action}: {_answer_text(str(reason or status or 'no reason'), parsed, location)}"
    if _CONFLICT.search(message):
        return ConflictError(f"{action}: another transaction changed the same tables first. Run it again")
    if _STREAMED.search(message):
        return RetriableError(
            f"{action}: rows were streamed into the table recently, and BigQuery does not change such rows in a "
            "transaction for 30 to 90 minutes. It is tried again later. Let no other writer stream into this table",
            retry_after_seconds=STREAMED_SECONDS,
        )
    if not reason and status in _HTTP_REASONS:
        reason = _HTTP_REASONS[status]
    elif reason in _VAGUE_REASONS:
        reason = parsed.topic or ("" if parsed.is_from_script else reason)
    if reason in _QUOTA_REASONS:
        return RetriableError(
            f"{text}. A long-term quota is exhausted and refills over hours. Wait, or ask Google for a higher "
            "quota (https://cloud.google.com/bigquery/quotas)",
            retry_after_seconds=QUOTA_SECONDS,
        )
    if reason in _BILLING_REASONS:
        return ConfigError(f"{text}. Partition the table so that less is read, or raise maximum_bytes_billed")
    if reason in _SOON_REASONS or status in _SOON_STATUSES or (status >= 500 and status != 501):
        retry_seconds = RATE_SECONDS if status == 429 or "ratelimit" in reason.lower() else None
        return RetriableError(text, retry_after_seconds=retry_seconds)
    return _error_by_reason(reason, parsed, text, status)


# 408 comes from Google's front end, as HTML, when a body arrives slowly; 499 when the connection was given up.
_SOON_STATUSES = (408, 429, 499)
_HTTP_REASONS = {
    401: "accessDenied", 403: "accessDenied", 404: "notFound", 407: "proxyAuthenticationRequired", 409: "duplicate",
    412: "conditionNotMet",
}  # fmt: skip
_INVALID_STATUSES = (400, 405, 411, 413, 414, 415, 431, 501)
_ACCOUNT_LACKS = "Give the connection's account the missing right, or use another account"
_BY_REASON: dict[str, tuple[type[ConnectError], str]] = {
    "notFound": (MissingError, "Create it, or correct its name, project or location"),
    "duplicate": (ExistsError, "It exists already"),
    "conditionNotMet": (StaleError, "Another client changed it meanwhile"),
    "location": (
        ConfigError,
        "Table, staging_dataset and the bucket of the stage must lie in one location",
    ),
    "tooManyPartitions": (
        ConfigError,
        "The day's rows lie in more partitions of the table than one statement may change. Load into a table with "
        "larger partitions (partition_type=), or one partitioned by 'day'",
    ),
    "nullInRequired": (
        DataError,
        "Rows have NULL in a REQUIRED column. Correct the source, or ALTER TABLE … ALTER COLUMN … DROP NOT NULL",
    ),
    "unknownColumn": (ColumnError, "The statement and the table's columns do not agree"),
    **dict.fromkeys(_DENIED_REASONS, (ConfigError, _ACCOUNT_LACKS)),
    **dict.fromkeys(_FINAL_REASONS, (ConfigError, "A retry does not help. Correct the options, the table or the data")),
}


def _error_by_reason(reason: str, parsed: Message, text: str, status: int) -> ConnectError:
    if reason == "tooManyStatements":
        return RetriableError(
            f"{text}. Too many statements wait for this table. Load fewer days at the same time",
            retry_after_seconds=RATE_SECONDS,
        )
    if (reason in _FINAL_REASONS or reason not in _BY_REASON) and _LOCATION.search(parsed.text):
        reason = "location"
    if not reason and status in _INVALID_STATUSES and not parsed.is_from_script:
        reason = "invalid"
    if reason not in _BY_REASON:
        return RetriableError(
            f"{text}. This error is unknown and is retried. If it stays, look at the job in Google's console, and "
            "report it",
            retry_after_seconds=UNKNOWN_SECONDS,
        )
    cls, advice = _BY_REASON[reason]
    if advice == _ACCOUNT_LACKS and _HIDDEN.search(parsed.text):
        cls = HiddenError
    return cls(f"{text}. {advice}")


_BY_CODE: dict[str, tuple[type[ConnectError], str]] = {
    "NOT_FOUND": (MissingError, "Create it, or correct its name or project"),
    "PERMISSION_DENIED": (ConfigError, _ACCOUNT_LACKS),
    "UNAUTHENTICATED": (ConfigError, _ACCOUNT_LACKS),
    "ALREADY_EXISTS": (ExistsError, "It exists already"),
    "INVALID_ARGUMENT": (DataError, "The rows or their schema do not fit the table"),
    "FAILED_PRECONDITION": (ConfigError, "A retry does not help"),
    "OUT_OF_RANGE": (ConfigError, "A retry does not help"),
    "UNIMPLEMENTED": (ConfigError, "This service does not support the Storage Write API"),
}


def _grpc_error(error: Any, action: str) -> ConnectError:
    name = error.grpc_status_code.name
    text = f"{action}: {_answer_text(name, parse_message(str(error.message or '')))}"
    if name == "RESOURCE_EXHAUSTED":
        long_term = re.search(r"(?i)per day|daily|hourly|per hour", str(error.message or ""))
        return RetriableError(text, retry_after_seconds=QUOTA_SECONDS if long_term else RATE_SECONDS)
    cls, advice = _BY_CODE.get(name, (RetriableError, "The error should pass"))
    if name == "PERMISSION_DENIED" and _HIDDEN.search(str(error.message or "")):
        cls = HiddenError
    return cls(f"{text}. {advice}")


def _auth_error(error: Any, action: str) -> ConnectError:
    from google.auth import exceptions as auth

    # Only a code such as invalid_grant is shown: the text may hold the token endpoint's whole response.
    word = re.match(r"\(?['\"]?(?:Error code )?([a-z]+(?:_[a-z]+)+)\b", str(error))
    code = f" ({word[1]})" if word else ""
    if isinstance(error, auth.TransportError) or getattr(error, "retryable", False):
        return RetriableError(f"{action}: Google's sign-in service does not respond ({type(error).__name__})")
    if isinstance(error, auth.DefaultCredentialsError):
        return ConfigError(
            f"{action}: no usable Google credentials. Put keyfile_dict or key_path into the connection, or set up "
            "application default credentials on every machine that runs the task"
        )
    return ConfigError(
        f"{action}: Google refuses the connection's credentials{code}. Renew the key or the account's rights"
    )
