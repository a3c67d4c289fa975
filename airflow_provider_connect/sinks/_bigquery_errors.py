"""What an error of BigQuery means: by the vendor's reason or status, never by the whole text.

REST errors carry a reason (https://cloud.google.com/bigquery/docs/error-messages, 2026-11), gRPC errors a status code.
A vendor's text may hold a record's value or a request, so only messages of known kinds are passed on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError

QUOTA_SECONDS = 3600.0  # BigQuery's longer quotas refill over a day, bit by bit
RATE_SECONDS = 30.0


class MissingError(ConfigError):
    """A project, dataset, table, stream or job is not there."""


class HiddenError(ConfigError):
    """Either there is no such thing or the right to see it is missing; BigQuery does not say which."""


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
_HIDDEN = re.compile(r"(?i)\bmay not exist\b|\bperhaps it does not exist\b")
_LOCATION = re.compile(
    r"(?i)^(?:cannot (?:read and write in different|process data across) (?:locations|regions)\b|"
    r"location \S+ does not support\b|dataset \S+ (?:was not found|is) in (?:a different )?(?:location|region)\b|"
    r"(?:the )?(?:job|query|dataset|table)(?:'s)? (?:location|region) .*\b(?:match|differ))"
)
_SOON = {
    "rateLimitExceeded", "backendError", "internalError", "badGateway", "timeout", "tableUnavailable", "stopped",
    "jobBackendError", "jobInternalError", "jobRateLimitExceeded", "resourceInUse", "serviceUnavailable",
}  # fmt: skip
_LATER = {"quotaExceeded", "dailyLimitExceeded"}
_DENIED = {"accessDenied", "forbidden", "authError", "required", "insufficientPermissions"}
_BILLING = {"bytesBilledLimitExceeded", "billingTierLimitExceeded"}

# The only messages that are shown: they name tables, columns, rights and limits, never a record's value.
_NAME = r"[\w.:`$-]+"
_AT = r"(?:\ at\ \[\d+:\d+\])?"
_SHOWN = re.compile(
    rf"""
    (?:Not\ found|Access\ Denied|Already\ Exists):\ |Permission\ \S+\ denied\ |Requested\ entity\ was\ not\ found|
    (?:Quota|Custom\ quota)\ exceeded\b|(?:Job\ )?[Ee]xceeded\ rate\ limits\b|Exceeds\ .*\bquota\b|
    Billing\ has\ not\ been\ enabled\b|Query\ exceeded\ limit\ for\ bytes\ billed:\ |Resources\ exceeded\b|
    Cannot\ query\ over\ table\ .*\ without\ a\ filter\ over\ column|
    Cannot\ read\ and\ write\ in\ different\ locations\b|Cannot\ process\ data\ across\ locations\b|
    Dataset\ {_NAME}\ (?:was\ not\ found|is)\ in\ |Location\ {_NAME}\ does\ not\ support\b|
    Provided\ Schema\ does\ not\ match\ Table\ |Cannot\ set\ kms\ key\ |
    Unrecognized\ name:\ {_NAME}(?:;\ Did\ you\ mean\ {_NAME}\?)?{_AT}$|
    Name\ {_NAME}\ not\ found\ inside\ {_NAME}{_AT}$|
    Transaction\ is\ aborted\ due\ to\ concurrent\b|Job\ execution\ was\ cancelled\b|Precondition\ check\ failed|
    An?\ internal\ error\ (?:occurred|in)\b|Error\ encountered\ during\ execution\.|Backend\ error\b|
    Deadline\ Exceeded|Socket\ closed|Stream\ removed|failed\ to\ connect\b|
    Service\ (?:is\ )?(?:currently\ )?unavailable|GOAWAY\ received|Too\ many\ (?:DML|partitions|concurrent)\b|
    Your\ administrator\ requires\b
    """,
    re.VERBOSE,
)
_SECRETS = re.compile(r"(?i)(?:\bbearer\s+\S+|\bya29\.\S+|\beyJ[\w-]+\S*|-----BEGIN.*)")
_METHOD = re.compile(r"^\d{3} (?=GET|POST|PUT|PATCH|DELETE)|^(?:GET|POST|PUT|PATCH|DELETE) \S+: ")


def told(text: str) -> str:
    """Return what may be shown of a vendor's message: one short line, or nothing if it could hold a record's value.

    A value may stand anywhere and without quotes ("john@example.com is not a valid INT64"), so only known kinds of
    messages pass, never parts of others.
    """
    line = _METHOD.sub("", " ".join(text.split()))
    return _SECRETS.sub("…", line)[:300] if _SHOWN.match(line) else ""


def _says(what: str, message: str, location: str = "") -> str:
    # A job's error names the file, the column or the part of the request that is wrong.
    where = f" in {location}" if re.fullmatch(r"[\w.:/-]{1,200}", location) else ""
    text = told(message)
    return f"BigQuery says {what}{where}" + (f": {text}" if text else "")


@contextmanager
def made_before(doing: str) -> Iterator[None]:
    """Give "not found" of what this attempt itself made another meaning: it is gone, a new attempt makes it again.

    :raises RetriableError: in place of :class:`MissingError`.
    """
    try:
        yield
    except MissingError:
        raise RetriableError(
            f"{doing}: what this attempt made there is gone (dropped, expired, or BigQuery does not show it yet); "
            "the rows must be sent again"
        ) from None


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
    location = str(structured[0].get("location") or "") if structured else ""
    return from_reason(reason, str(error.message or ""), doing, status=int(error.code or 0), location=location)


def from_result(result: dict[str, Any], doing: str) -> ConnectError:
    """Return our error for the ``errorResult`` of a job that is DONE (``reason``, ``message``)."""
    reason, message, location = (str(result.get(name) or "") for name in ("reason", "message", "location"))
    return from_reason(reason, message, doing, status=0, location=location)


def from_reason(reason: str, message: str, doing: str, *, status: int, location: str = "") -> ConnectError:
    """Return our error for a reason of BigQuery's error table and, where the reason says nothing, a HTTP status."""
    shown = f"{doing}: {_says(str(reason or status), message, location)}"
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
    elif reason not in _BY_REASON and _LOCATION.search(_METHOD.sub("", message)):
        reason = "location"
    cls, advice = _BY_REASON.get(reason, _OTHERWISE)
    if advice == _ACCOUNT_LACKS and _HIDDEN.search(message):
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
    shown = f"{doing}: {_says(name, str(error.message or ''))}"
    if name == "RESOURCE_EXHAUSTED":
        long_term = re.search(r"(?i)per day|daily|hourly|per hour", str(error.message or ""))
        return RetriableError(shown, retry_after_seconds=QUOTA_SECONDS if long_term else RATE_SECONDS)
    cls, advice = _BY_CODE.get(name, (RetriableError, "it is expected to pass"))
    if name == "PERMISSION_DENIED" and _HIDDEN.search(str(error.message or "")):
        cls = HiddenError
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
