"""Converts Mixpanel's refusals to errors that name a remedy."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any, NamedTuple

from airflow_provider_connect.clients.http.client import excerpt, retry_after_seconds
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.sources._mixpanel.access import HOSTS, QUERY_HOSTS, Api, MixpanelAccess

_HOUR_IS_USED_UP_SECONDS = 900.0
_TOO_MANY_AT_ONCE_SECONDS = 10.0
_TOO_FAST_SECONDS = 60.0
_FUTURE = "cannot be later than today"
_CREDENTIALS = "authenticate"
_TOO_OLD = "days into the past"
_NO_DATA_GROUP = "missing datagroup"


class UnreadableCohortError(ConfigError):
    """A cohort has no readable members, because its data group was deleted."""


class _Meaning(NamedTuple):
    """Error for answers with this status and text. The first match in ``_TABLE`` counts."""

    status: int
    text: str
    error: type[ConnectError]
    meaning: str


_ASK_FOR_LATER_DAYS = "the project's plan does not include data that old. Load later days, or change the plan"

_TABLE = (
    _Meaning(
        400, _FUTURE, ConfigError, "the day is in the future in the project's zone. Check zone and "
        "timestamps",
    ),
    _Meaning(
        400, _CREDENTIALS, ConfigError, "the host does not know the credentials. Check login, password, project_id and "
        "region ({regions})",
    ),
    # Seen by https://github.com/ploner/RMixpanel/issues/7, and with 403 by https://github.com/jaredmcfarland/mixpanel_data
    # (get_events, 2026-05).
    _Meaning(400, _TOO_OLD, ConfigError, _ASK_FOR_LATER_DAYS),
    _Meaning(400, "project_id", ConfigError, "project_id in the connection's extra is missing or wrong"),
    _Meaning(400, "", ConfigError, "Mixpanel does not understand the request. Check {about}{options}"),
    _Meaning(
        401, "", ConfigError, "the credentials or the region are wrong. Check login, password and region "
        "({regions})",
    ),
    _Meaning(402, "", ConfigError, "the project's plan does not include {plan}"),
    _Meaning(403, _TOO_OLD, ConfigError, _ASK_FOR_LATER_DAYS),
    _Meaning(403, "", ConfigError, "the account has no role that may {may} in this project. Ask for one, and check "
             "project_id"),
    # https://github.com/estuary/connectors/pull/2550 (2026-11)
    _Meaning(
        404, _NO_DATA_GROUP, UnreadableCohortError, "{what} cannot be read: its data group was deleted. Change the "
        "data group of the cohort in Mixpanel",
    ),
    _Meaning(404, "", ConfigError, "{unknown}the host has no {verb} API. Check host and region"),
    _Meaning(408, "", RetriableError, "the server stopped waiting"),
    _Meaning(429, "", RetriableError, "the project's query limit is reached"),
)  # fmt: skip
"""Refusals from Mixpanel's documentation and other connectors (2026-11):
https://developer.mixpanel.com/reference/raw-event-export, /reference/rate-limits.
"""

_WORDS: dict[Api, dict[str, str]] = {
    "export": {
        "regions": ", ".join(HOSTS),
        "verb": "export",
        "may": "export",
        "plan": "this API",
        "options": "the options where and event",
        "who": "an export",
    },
    "query": {
        "regions": ", ".join(QUERY_HOSTS),
        "verb": "query",
        "may": "query",
        "plan": "the Query API, which needs Growth or Enterprise. stream='export' works without it",
        "options": "the stream's options",
        "who": "the Query API",
    },
    "app": {
        "regions": ", ".join(QUERY_HOSTS),
        "verb": "app",
        "may": "see its annotations",
        "plan": "this API",
        "options": "the stream's options",
        "who": "the App API",
    },
}


def refusal_error(
    status: int,
    body: str,
    access: MixpanelAccess,
    *,
    now: dt.datetime,
    retry_after: str = "",
    progress: str = "",
    is_cut: bool = False,
    subject: str = "",
) -> ConnectError:
    text = _error_text(body)
    quote = excerpt(text, access.secrets, is_cut=is_cut)
    quote_suffix = f". Mixpanel said: {quote!r}" if quote else ""
    progress_suffix = f". {progress}" if progress else ""
    effective_status = _effective_status(status, text)
    wait = retry_after_seconds(retry_after, now)
    entry = next((row for row in _TABLE if row.status == effective_status and row.text in text.lower()), None)
    if entry is not None:
        placeholders = _WORDS[access.api] | {
            "about": f"{subject} and " if subject else "",
            "unknown": f"this project has no {subject}, so check it and project_id. Or " if subject else "",
            "what": subject or "the requested object",
        }
        message = (
            f"Mixpanel ({access.server_text}) answered {status}: {entry.meaning.format(**placeholders)}"
            f"{quote_suffix}{progress_suffix}"
        )
        if effective_status == 429:
            return _limit_error(message, text, wait)
        if entry.error is RetriableError:
            return RetriableError(message, retry_after_seconds=wait)
        return entry.error(message)
    if status >= 500 or status == 200:
        trouble = "an error inside its answer" if status == 200 else str(status)
        message = (
            f"Mixpanel ({access.server_text}) answered {trouble}: the server failed{quote_suffix}{progress_suffix}"
        )
        return RetriableError(message, retry_after_seconds=wait)
    return ConfigError(
        f"Mixpanel ({access.server_text}) answered {status}, which is unexpected for "
        f"{_WORDS[access.api]['who']}{quote_suffix}{progress_suffix}"
    )


def status_of_refusal(status: int, body: str) -> int:
    """Return a refusal's status, or for 200 the status that its error text implies."""
    return _effective_status(status, _error_text(body))


def _effective_status(status: int, text: str) -> int:
    if status != 200:
        return status
    if "rate limit" in text.lower():
        return 429
    return 400 if _CREDENTIALS in text.lower() or _FUTURE in text.lower() else 200


def _error_text(body: str) -> str:
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return body
    error = parsed.get("error") if isinstance(parsed, dict) else None
    return error if isinstance(error, str) else body


def _limit_error(message: str, text: str, wait: float | None) -> RetriableError:
    if (hour := _reached_limit(text, "in the last hour")) is not None:
        retry_after_seconds = _HOUR_IS_USED_UP_SECONDS if wait is None else wait
        return QuotaError(message, said=(*hour, wait or 0.0), retry_after_seconds=retry_after_seconds)
    if wait is None:
        wait = _TOO_FAST_SECONDS if _reached_limit(text, "concurrently") is None else _TOO_MANY_AT_ONCE_SECONDS
    return RetriableError(message, retry_after_seconds=wait)


def _reached_limit(text: str, period: str) -> tuple[int, int] | None:
    counters = re.search(rf"(\d{{1,9}})/(\d{{1,9}}) queries running {period}", text)
    if counters is None or int(counters[1]) < int(counters[2]):
        return None
    return int(counters[1]), int(counters[2])
