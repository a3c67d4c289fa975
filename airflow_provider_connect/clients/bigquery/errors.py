"""What an error of BigQuery means, told by the vendor's reason or status, never by the whole text.

REST errors carry a reason (https://cloud.google.com/bigquery/docs/error-messages, 2026-11), gRPC errors a status code.
Where the reason says little, known kinds of messages (:mod:`.messages`) say more. An error in none of the
tables is retriable, as often as Airflow's number of retries allows.
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

QUOTA_SECONDS = 3600.0  # BigQuery's longer quotas refill over a day, bit by bit
RATE_SECONDS = 30.0
STREAMED_SECONDS = 1800.0  # rows that were streamed cannot be changed in a transaction for 30 to 90 minutes
UNKNOWN_SECONDS = 120.0  # longer than a task sleeps: unknown errors are for Airflow's retries, whose number is limited


class MissingError(ConfigError):
    """A project, dataset, table, stream or job does not exist."""


class HiddenError(ConfigError):
    """Something does not exist, or the right to see it is missing; BigQuery does not say which."""


class ColumnError(ConfigError):
    """A statement names a column that the table does not have, or has with another type."""


class ExistsError(ConfigError):
    """What should be made exists already (409)."""


class ConflictError(RetriableError):
    """A transaction lost against another one, and has changed nothing."""


class GoneError(RetriableError):
    """What this attempt made is gone, or not visible yet; a new attempt makes it again."""


class StaleError(RetriableError):
    """A table was changed between reading and changing it (412)."""


_CONFLICT = re.compile(r"aborted due to concurrent|could not serialize access|concurrent update", re.IGNORECASE)
_STREAMED = re.compile(r"(?i)\bstreaming buffer\b|\brecently streamed\b")
_HIDDEN = re.compile(r"(?i)\bmay not exist\b|\bperhaps it does not exist\b")
_LOCATION = re.compile(
    r"(?i)^(?:cannot (?:read and write in different|process data across) (?:locations|regions)\b|"
    r"location \S+ does not support\b|dataset \S+ (?:was not found|is) in (?:a different )?(?:location|region)\b|"
    r"(?:the )?(?:job|query|dataset|table)(?:'s)? (?:location|region) .*\b(?:match|differ))"
)
_SOON = {
    "rateLimitExceeded", "userRateLimitExceeded", "backendError", "internalError", "badGateway", "timeout",
    "tableUnavailable", "stopped",
    "jobBackendError", "jobInternalError", "jobRateLimitExceeded", "resourceInUse", "serviceUnavailable",
}  # fmt: skip
_VAGUE = {"", "invalid", "invalidQuery", "badRequest", "resourcesExceeded"}
"""Reasons that come with errors of any kind: the message tells more."""
_LATER = {"quotaExceeded", "dailyLimitExceeded"}
_DENIED = {"accessDenied", "forbidden", "authError", "required", "insufficientPermissions", "accessNotConfigured"}
_BILLING = {"bytesBilledLimitExceeded", "billingTierLimitExceeded"}
_FINAL = {
    "invalid", "invalidQuery", "invalidUser", "badRequest", "parseError", "billingNotEnabled", "blocked",
    "attributeError", "responseTooLarge", "resourcesExceeded", "notImplemented", "proxyAuthenticationRequired",
}  # fmt: skip


def _says(what: str, message: Message, location: str = "") -> str:
    # The location of an error is the file, the column or the part of the request that is wrong.
    where = f" in {location}" if re.fullmatch(r"[\w.:/-]{1,200}", location) else ""
    if message.printable:
        return f"BigQuery says {what}{where}: {message.printable}"
    return f"BigQuery says {what}{where}" + (f" at {message.position}" if message.position else "")


@contextmanager
def missing_as_gone(action: str) -> Iterator[None]:
    """Turn "not found" into "gone", for what this attempt itself made: a new attempt makes it again.

    :raises GoneError: in place of :class:`MissingError`.
    """
    try:
        yield
    except MissingError:
        raise GoneError(
            f"{action}: what this attempt made there is gone (dropped, expired, or BigQuery does not show it yet); "
            "the rows must be sent again"
        ) from None


def classify(error: BaseException, action: str) -> ConnectError:
    """Return our error for one of Google's libraries, ``requests`` or gRPC; ours come back as they are.

    :param doing: what was being done, in words: "creating the table `p.d.t`".
    """
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
            f"{action}: no answer from BigQuery ({type(error).__name__}); check the network if it stays"
        )
    return ConnectError(f"{action}: unexpected {type(error).__name__}")


def _api_error(error: Any, doing: str) -> ConnectError:
    structured = next((one for one in error.errors or () if isinstance(one, dict)), None)
    if structured is None and not isinstance(error.response, requests.Response) and error.grpc_status_code is not None:
        return _grpc_error(error, doing)
    return error_from_result({**(structured or {}), "message": error.message}, doing, status=int(error.code or 0))


def error_from_result(result: dict[str, Any], action: str, status: int = 0) -> ConnectError:
    """Return our error for a reason of BigQuery's error table or, where that says little, for message and status.

    :param result: ``reason``, ``message`` and ``location``, as in the ``errorResult`` of a job that is DONE.
    :param status: of the HTTP answer; 0 for a job.
    """
    reason, message, location = (str(result.get(name) or "") for name in ("reason", "message", "location"))
    said = parse_message(message)
    shown = f"{action}: {_says(str(reason or status or 'no reason'), said, location)}"
    if _CONFLICT.search(message):
        return ConflictError(f"{action}: another transaction changed the same tables first; run it again")
    if _STREAMED.search(message):
        return RetriableError(
            f"{action}: rows were streamed into the table a short while ago, and BigQuery does not change such rows in "
            "a transaction for 30 to 90 minutes: it is tried again later; let nobody else stream into this table",
            retry_after_seconds=STREAMED_SECONDS,
        )
    if not reason and status in _HTTP_REASONS:
        reason = _HTTP_REASONS[status]
    elif reason in _VAGUE:
        reason = said.topic or ("" if said.is_from_script else reason)
    if reason in _LATER:
        return RetriableError(
            f"{shown}; a longer quota is used up and refills over hours: wait, or ask Google for more "
            "(https://cloud.google.com/bigquery/quotas)",
            retry_after_seconds=QUOTA_SECONDS,
        )
    if reason in _BILLING:
        return ConfigError(f"{shown}; raise maximum_bytes_billed or partition the table so that less is read")
    if reason in _SOON or status in _SOON_STATUSES or (status >= 500 and status != 501):
        after = RATE_SECONDS if status == 429 or "ratelimit" in reason.lower() else None
        return RetriableError(shown, retry_after_seconds=after)
    return _by_status(reason, said, shown, status)


# 408 comes from Google's front end, as HTML, when a body arrives slowly; 499 when the connection was given up.
_SOON_STATUSES = (408, 429, 499)
_HTTP_REASONS = {
    401: "accessDenied", 403: "accessDenied", 404: "notFound", 407: "proxyAuthenticationRequired", 409: "duplicate",
    412: "conditionNotMet",
}  # fmt: skip
_WRONG_STATUSES = (400, 405, 411, 413, 414, 415, 431, 501)
"""A request refused with one of these, and without a reason, is itself wrong. Other statuses prove nothing."""
_ACCOUNT_LACKS = "give the connection's account the right it lacks, or another account"
_BY_REASON: dict[str, tuple[type[ConnectError], str]] = {
    "notFound": (MissingError, "create it, or correct its name, its project or its location"),
    "duplicate": (ExistsError, "it is there already"),
    "conditionNotMet": (StaleError, "somebody else changed it meanwhile"),
    "location": (
        ConfigError,
        "they lie in different locations: take a table, a staging_dataset= and a bucket of the stage in one location",
    ),
    "tooManyPartitions": (
        ConfigError,
        "the day's rows lie in more partitions of the table than one statement may change: load into a table of larger "
        "partitions (partition_type=), or one partitioned by 'day'",
    ),
    "nullInRequired": (
        DataError,
        "rows have NULL in a column that is REQUIRED: ALTER TABLE … ALTER COLUMN … DROP NOT NULL, or mend the source",
    ),
    "unknownColumn": (ColumnError, "the statement and the table's columns do not agree"),
    **dict.fromkeys(_DENIED, (ConfigError, _ACCOUNT_LACKS)),
    **dict.fromkeys(_FINAL, (ConfigError, "trying again changes nothing: correct the options, the table or the data")),
}


def _by_status(reason: str, said: Message, shown: str, status: int) -> ConnectError:
    if reason == "tooManyStatements":
        return RetriableError(
            f"{shown}; too many statements wait for this table: load fewer days at once",
            retry_after_seconds=RATE_SECONDS,
        )
    if (reason in _FINAL or reason not in _BY_REASON) and _LOCATION.search(said.text):
        reason = "location"
    if not reason and status in _WRONG_STATUSES and not said.is_from_script:
        reason = "invalid"
    if reason not in _BY_REASON:
        return RetriableError(
            f"{shown}; nobody here knows this error, so it is tried again: if it stays, look at the job in Google's "
            "console, and report it",
            retry_after_seconds=UNKNOWN_SECONDS,
        )
    cls, advice = _BY_REASON[reason]
    if advice == _ACCOUNT_LACKS and _HIDDEN.search(said.text):
        cls = HiddenError
    return cls(f"{shown}; {advice}")


_BY_CODE: dict[str, tuple[type[ConnectError], str]] = {
    "NOT_FOUND": (MissingError, "create it, or correct its name or its project"),
    "PERMISSION_DENIED": (ConfigError, _ACCOUNT_LACKS),
    "UNAUTHENTICATED": (ConfigError, _ACCOUNT_LACKS),
    "ALREADY_EXISTS": (ExistsError, "it is there already"),
    "INVALID_ARGUMENT": (DataError, "the rows or their schema do not fit the table"),
    "FAILED_PRECONDITION": (ConfigError, "trying again changes nothing"),
    "OUT_OF_RANGE": (ConfigError, "trying again changes nothing"),
    "UNIMPLEMENTED": (ConfigError, "this service does not speak the Storage Write API"),
}


def _grpc_error(error: Any, doing: str) -> ConnectError:
    name = error.grpc_status_code.name
    shown = f"{doing}: {_says(name, parse_message(str(error.message or '')))}"
    if name == "RESOURCE_EXHAUSTED":
        long_term = re.search(r"(?i)per day|daily|hourly|per hour", str(error.message or ""))
        return RetriableError(shown, retry_after_seconds=QUOTA_SECONDS if long_term else RATE_SECONDS)
    cls, advice = _BY_CODE.get(name, (RetriableError, "it is expected to pass"))
    if name == "PERMISSION_DENIED" and _HIDDEN.search(str(error.message or "")):
        cls = HiddenError
    return cls(f"{shown}; {advice}")


def _auth_error(error: Any, doing: str) -> ConnectError:
    from google.auth import exceptions as auth

    # Only a code such as invalid_grant is shown: the text may hold the token endpoint's whole answer.
    word = re.match(r"\(?['\"]?(?:Error code )?([a-z]+(?:_[a-z]+)+)\b", str(error))
    code = f" ({word[1]})" if word else ""
    if isinstance(error, auth.TransportError) or getattr(error, "retryable", False):
        return RetriableError(f"{doing}: Google's sign-in service does not answer ({type(error).__name__})")
    if isinstance(error, auth.DefaultCredentialsError):
        return ConfigError(
            f"{doing}: no usable Google credentials; put keyfile_dict or key_path into the connection, or set up "
            "application default credentials on every machine that works on the task"
        )
    return ConfigError(
        f"{doing}: Google refuses the connection's credentials{code}; renew the key or the account's rights"
    )
