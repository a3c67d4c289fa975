"""What an error of BigQuery means: by the vendor's reason or status, never by the whole text.

REST errors carry a reason (https://cloud.google.com/bigquery/docs/error-messages, 2026-11), gRPC errors a status code.
A vendor's text may quote a record's value or a request, so what is passed on of it is cut to what cannot hold one.
"""

from __future__ import annotations

import json
import re
from typing import Any

import requests

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

QUOTA_SECONDS = 3600.0  # BigQuery's longer quotas refill over a day, bit by bit
RATE_SECONDS = 30.0


class MissingError(ConfigError):
    """A project, dataset, table, stream or job is not there."""


class ExistsError(ConfigError):
    """What was to be made is there already (409)."""


class ConflictError(RetriableError):
    """A transaction lost against another one; nothing of it happened."""


class StaleError(RetriableError):
    """A table was changed between reading and changing it (412)."""


_CONFLICT = re.compile(
    r"aborted due to concurrent|could not serialize access|concurrent update|transactioncontext error|"
    r"write-write conflict|conflict on (?:update|tuple)|transaction conflict",
    re.IGNORECASE,
)
_SOON = {
    "rateLimitExceeded", "backendError", "internalError", "badGateway", "timeout", "tableUnavailable", "stopped",
    "jobBackendError", "jobInternalError", "jobRateLimitExceeded", "resourceInUse", "serviceUnavailable",
}  # fmt: skip
_LATER = {"quotaExceeded", "dailyLimitExceeded"}
_DENIED = {"accessDenied", "forbidden", "authError", "required", "insufficientPermissions"}
_BILLING = {"bytesBilledLimitExceeded", "billingTierLimitExceeded"}

_QUOTED = re.compile(r"""(?<!\w)'(?:[^'\\]|\\.)*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$)""")
_VALUE = re.compile(r"(?i)\b(value|literal|string|input|datum|data|row|record)s?\s*(?:is|:|=)\s*.*")
_NUMBER = re.compile(r"(?<![\w.:-])-?\d[\d.,eE+-]*")
_SECRETS = re.compile(r"(?i)(?:\bbearer\s+\S+|\bya29\.\S+|\beyJ[\w-]+\S*|-----BEGIN.*)")
_KEEP_QUOTED = re.compile(r"(?i)^(?:Cannot query over table .* without a filter over column|Not found: )")


def told(text: str) -> str:
    """Return what may be shown of a vendor's message: no quoted text, no values, no numbers, one short line."""
    line = _SECRETS.sub("…", " ".join(text.split()))
    line = re.sub(r"^(?:GET|POST|PUT|PATCH|DELETE) \S+: | LINE \d+: .*", "", line)
    line = _NUMBER.sub("…", _VALUE.sub(r"\1 …", line))
    if not _KEEP_QUOTED.search(line):
        line = _QUOTED.sub("'…'", line)
    return line[:300]


def is_conflict(error: BaseException) -> bool:
    """Say whether a transaction lost against another: nothing of it happened, it may be run again at once."""
    return isinstance(error, ConflictError) or bool(_CONFLICT.search(str(error)))


def classify(error: BaseException, doing: str) -> ConnectError:
    """Return our error for one of Google's libraries, ``requests`` or gRPC; ours come back as they are.

    :param doing: what was being done, in words: "creating the table `p.d.t`".
    """
    import grpc
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    if isinstance(error, ConnectError):
        return error
    if isinstance(error, api.RetryError) and error.cause is not None:
        return classify(error.cause, doing)
    if isinstance(error, grpc.RpcError) and not isinstance(error, api.GoogleAPICallError):
        error = api.from_grpc_error(error)  # type: ignore[no-untyped-call]
    if isinstance(error, api.GoogleAPICallError):
        return _api_error(error, doing)
    if isinstance(error, auth.GoogleAuthError):
        return _auth_error(error, doing)
    if isinstance(error, (requests.RequestException, ConnectionError, TimeoutError, json.JSONDecodeError)):
        return RetriableError(
            f"{doing}: no answer from BigQuery ({type(error).__name__}); check the network if it stays"
        )
    return ConnectError(f"{doing}: unexpected {type(error).__name__}")


def _api_error(error: Any, doing: str) -> ConnectError:
    structured = [one for one in error.errors or () if isinstance(one, dict)]
    if not structured and not isinstance(error.response, requests.Response) and error.grpc_status_code is not None:
        return _grpc_error(error, doing)
    reason = str(structured[0].get("reason", "")) if structured else ""
    return from_reason(reason, str(error.message or ""), doing, status=int(error.code or 0))


def from_result(result: dict[str, Any], doing: str) -> ConnectError:
    """Return our error for the ``errorResult`` of a job that is DONE (``reason``, ``message``)."""
    return from_reason(str(result.get("reason", "")), str(result.get("message", "")), doing, status=0)


def from_reason(reason: str, message: str, doing: str, *, status: int) -> ConnectError:
    """Return our error for a reason of BigQuery's error table and, where the reason says nothing, a HTTP status."""
    shown = f"{doing}: BigQuery says {reason or status}: {told(message)}"
    if _CONFLICT.search(message):
        return ConflictError(f"{doing}: another transaction changed the same tables first; run it again")
    if reason in _LATER:
        return RetriableError(
            f"{shown}; a longer quota is used up and refills over hours: wait, or ask Google for more "
            "(https://cloud.google.com/bigquery/quotas)",
            retry_after_seconds=QUOTA_SECONDS,
        )
    if reason in _BILLING:
        return ConfigError(f"{shown}; raise maximum_bytes_billed or partition the table so that less is read")
    if reason in _SOON or status == 429 or (status >= 500 and status != 501):
        after = RATE_SECONDS if status == 429 or "ratelimit" in reason.lower() else None
        return RetriableError(shown, retry_after_seconds=after)
    return _by_status(reason, message, shown, status)


_HTTP_REASONS = {
    401: "accessDenied", 403: "accessDenied", 404: "notFound", 409: "duplicate", 412: "conditionNotMet",
}  # fmt: skip
_ACCOUNT_LACKS = "give the connection's account the right it lacks, or another account"
_BY_REASON: dict[str, tuple[type[ConnectError], str]] = {
    "notFound": (MissingError, "create it, or correct its name, its project or its location"),
    "duplicate": (ExistsError, "it is there already"),
    "conditionNotMet": (StaleError, "somebody else changed it meanwhile"),
    "tooManyStatements": (RetriableError, "too many statements wait for this table"),
    "location": (ConfigError, "the dataset lies in another location: correct location= or the table"),
    **dict.fromkeys(_DENIED, (ConfigError, _ACCOUNT_LACKS)),
}
_OTHERWISE = (ConfigError, "trying again changes nothing: correct the options, the table or the data")


def _by_status(reason: str, message: str, shown: str, status: int) -> ConnectError:
    if reason == "resourcesExceeded" and "outstanding" in message:
        reason = "tooManyStatements"
    elif reason not in _BY_REASON and status in _HTTP_REASONS:
        reason = _HTTP_REASONS[status]
    elif reason not in _BY_REASON and re.search(r"(?i)\blocations?\b|\bregions?\b", message):
        reason = "location"
    cls, advice = _BY_REASON.get(reason, _OTHERWISE)
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
    shown = f"{doing}: BigQuery says {name}: {told(str(error.message or ''))}"
    if name == "RESOURCE_EXHAUSTED":
        long_term = re.search(r"(?i)per day|daily|hourly|per hour", str(error.message or ""))
        return RetriableError(shown, retry_after_seconds=QUOTA_SECONDS if long_term else RATE_SECONDS)
    cls, advice = _BY_CODE.get(name, (RetriableError, "it is expected to pass"))
    return cls(f"{shown}; {advice}")


def _auth_error(error: Any, doing: str) -> ConnectError:
    from google.auth import exceptions as auth

    # Only a code word such as invalid_grant is taken from it: the text may hold the token endpoint's whole answer.
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
