"""Converts X's refusals to errors that name a remedy.

The end of a problem's ``type`` identifies it (https://docs.x.com/x-api/fundamentals/response-codes-and-errors,
2026-11).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.clients.http.asking.call import Reply
from airflow_provider_connect.clients.http.asking.judging import wait_seconds
from airflow_provider_connect.clients.http.asking.rules import Moment
from airflow_provider_connect.clients.http.client import excerpt, retry_after_seconds
from airflow_provider_connect.errors import ConfigError, ConnectError, QuotaError, RetriableError
from airflow_provider_connect.window import Day

MAX_WAIT_SECONDS = 960.0
"""Longest wait for the next window, which has 15 minutes."""

WINDOW_RESET = Moment(header="x-rate-limit-reset", format="epoch_s")
"""Header with the start of the next window."""

_TOO_FAST_SECONDS = 2.0
_UNKNOWN_SECONDS = 60.0
_CAPS = ("usage-capped", "usagecapexceeded", "credits", "creditsdepleted")


class TokenError(RetriableError):
    """X no longer accepts its own next_token. The day must be read again."""


def refusal_error(reply: Reply, day: Day | None, now: dt.datetime, *, is_later_page: bool = False) -> ConnectError:
    """Return the error for a refusal.

    :param is_later_page: True if the request had a next_token.
    """
    status, host, problem = reply.status, reply.host, _problem(reply.text)
    server_text = excerpt(_problem_text(problem) or reply.text, reply.secrets, is_cut=reply.is_cut)
    quoted = f". X said: {server_text!r}" if server_text else ""
    wait = retry_after_seconds(reply.header("Retry-After"), now)
    if is_usage_cap(status, problem):
        return _usage_cap_error(status, problem, day, host, quoted)
    if status == 429:
        return _rate_limit_error(reply, now, wait, quoted)
    if status == 400 and is_later_page:
        return TokenError(
            f"{host} answered 400 to a later page: X no longer accepts its own next_token, so the day starts "
            f"again{quoted}"
        )
    if status >= 500 or status in (408, 425):
        return RetriableError(f"{host} answered {status}: the server failed{quoted}", retry_after_seconds=wait)
    meaning = _MEANINGS.get(status, "an unexpected status")
    return ConfigError(f"{host} answered {status}: {meaning}{quoted}")


def is_usage_cap(status: int, problem: Mapping[str, Any]) -> bool:
    """Return True if the app has read all paid posts."""
    if status not in (402, 429):
        return False
    kind, title = _kind(problem), str(problem.get("title", "")).replace(" ", "").lower()
    return status == 402 or kind in _CAPS or title in _CAPS or {"period", "scope"} <= problem.keys()


def problem_kind(problem: Mapping[str, Any]) -> str:
    """Return the end of a problem's type, such as ``resource-not-found``."""
    kind = "".join(letter if letter.isalnum() or letter == "-" else "-" for letter in _kind(problem))[:60]
    return kind or "unknown"


_MEANINGS = {
    400: "X does not understand the request. Check queries, dialect, fields and expansions",
    401: "X does not know the token. Check the connection's password, the app's bearer token",
    403: "the app may not search there. Check its access, and that it belongs to a project. The archive "
    "(endpoint='all', and days older than a week with 'auto') needs pay-per-use or Enterprise access",
    404: "the host has no search. Check the connection's host",
}


def _rate_limit_error(reply: Reply, current_time: dt.datetime, wait: float | None, quoted: str) -> RetriableError:
    limit, remaining, reset = (
        _int_or_none(reply.header(f"x-rate-limit-{name}")) for name in ("limit", "remaining", "reset")
    )
    if remaining:  # it is the limit on a second: the window has room
        message = f"{reply.host} answered 429: the app sends too many requests a second{quoted}"
        return RetriableError(message, retry_after_seconds=_TOO_FAST_SECONDS if wait is None else wait)
    reset_seconds = None if reset is None else wait_seconds(WINDOW_RESET, reply, current_time)
    seconds = wait if reset_seconds is None else min(max(reset_seconds, 1.0), MAX_WAIT_SECONDS)
    message = f"{reply.host} answered 429: the app's requests of this window are used up{quoted}"
    if limit is not None and seconds is not None:
        return QuotaError(message, said=(limit, limit, seconds), retry_after_seconds=seconds)
    return RetriableError(message, retry_after_seconds=_UNKNOWN_SECONDS if seconds is None else seconds)


def _usage_cap_error(status: int, problem: Mapping[str, Any], day: Day | None, host: str, quoted: str) -> ConfigError:
    period = problem.get("period")
    cap = f"the {period.lower()} usage cap" if isinstance(period, str) and period.isalpha() else "the usage cap"
    following = f". The next day to load is {day}: clear its task then" if day is not None else ""
    return ConfigError(
        f"{host} answered {status}: {cap} of the app is reached. Wait until it is reset, or raise it in X's developer "
        f"console. Retries do not help before{following}{quoted}"
    )


def _problem(body: str) -> dict[str, Any]:
    try:
        problem: Any = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}


def _kind(problem: Mapping[str, Any]) -> str:
    return str(problem.get("type") or "").rstrip("/").rpartition("/")[2].lower()


def _problem_text(problem: Mapping[str, Any]) -> str:
    texts = [problem.get("title"), problem.get("detail")]
    errors = problem.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            texts += [error.get("message"), error.get("detail")]
    return ": ".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text))


def _int_or_none(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() and len(text) < 20 else None
