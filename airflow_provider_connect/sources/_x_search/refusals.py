"""What X's refusals mean, and what to do about each.

By the end of a problem's ``type``: it has come with two host names
(https://docs.x.com/x-api/fundamentals/response-codes-and-errors, 2026-11, and replies of that year). A 429 is either a
rate limit, which passes, or the usage cap, which only a person can raise.
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
"""X's windows are fifteen minutes long; a reset that lies further ahead is a clock's mistake."""

WINDOW_RESET = Moment(header="x-rate-limit-reset", format="epoch_s")
"""Where an answer says when the next window begins."""

_TOO_FAST_SECONDS = 2.0
_UNKNOWN_SECONDS = 60.0
_CAPS = ("usage-capped", "usagecapexceeded", "credits", "creditsdepleted")


class TokenError(RetriableError):
    """X takes its own next_token no more: asking again with it is no use."""


def refusal_error(reply: Reply, day: Day | None, now: dt.datetime, *, is_later_page: bool = False) -> ConnectError:
    """Return the error to raise for a refusal.

    :param day: which was asked for; None for a question of another kind.
    :param is_later_page: whether the request named a next_token.
    """
    status, host, problem = reply.status, reply.host, _problem(reply.text)
    words = excerpt(_words(problem) or reply.text, reply.secrets, is_cut=reply.is_cut)
    quoted = f"; it said: {words!r}" if words else ""
    wait = retry_after_seconds(reply.header("Retry-After"), now)
    if is_usage_cap(status, problem):
        return _capped(status, problem, day, host, quoted)
    if status == 429:
        return _slowed(reply, now, wait, quoted)
    if status == 400 and is_later_page:
        return TokenError(
            f"{host} answered 400 to a later page: it takes its own next_token no more, and the day begins anew{quoted}"
        )
    if status >= 500 or status in (408, 425):
        return RetriableError(f"{host} answered {status}: it is in trouble{quoted}", retry_after_seconds=wait)
    meaning = _MEANINGS.get(status, "which a search never does")
    return ConfigError(f"{host} answered {status}: {meaning}{quoted}")


def is_usage_cap(status: int, problem: Mapping[str, Any]) -> bool:
    """Tell whether the app has read as many posts as it has paid for: then no wait helps."""
    if status not in (402, 429):
        return False
    kind, title = _kind(problem), str(problem.get("title", "")).replace(" ", "").lower()
    return status == 402 or kind in _CAPS or title in _CAPS or {"period", "scope"} <= problem.keys()


def problem_kind(problem: Mapping[str, Any]) -> str:
    """Return the end of a problem's type, such as ``resource-not-found``, as a part of a count's name."""
    kind = "".join(letter if letter.isalnum() or letter == "-" else "-" for letter in _kind(problem))[:60]
    return kind or "unknown"


_MEANINGS = {
    400: "the request is not understood: check queries, dialect, fields and expansions",
    401: "it does not know the token: check the connection's password, which holds the app's bearer token",
    403: "the app may not search there: check its access, and that it belongs to a project; the archive "
    "(endpoint='all', and days older than a week with 'auto') needs pay-per-use or Enterprise access",
    404: "there is no search at that host: check the connection's host",
}


def _slowed(reply: Reply, now: dt.datetime, wait: float | None, quoted: str) -> RetriableError:
    """Return the error for a rate limit, by the headers that tell of the app's window.

    :param wait: as the header Retry-After says.
    """
    limit, remaining, reset = (_whole(reply.header(f"x-rate-limit-{name}")) for name in ("limit", "remaining", "reset"))
    if remaining:  # it is the limit on a second: the window has room
        message = f"{reply.host} answered 429: the app asks too fast{quoted}"
        return RetriableError(message, retry_after_seconds=_TOO_FAST_SECONDS if wait is None else wait)
    ends = None if reset is None else wait_seconds(WINDOW_RESET, reply, now)
    after = wait if ends is None else min(max(ends, 1.0), MAX_WAIT_SECONDS)
    message = f"{reply.host} answered 429: the app's requests of this window are used up{quoted}"
    if limit is not None and after is not None:
        return QuotaError(message, said=(limit, limit, after), retry_after_seconds=after)
    return RetriableError(message, retry_after_seconds=_UNKNOWN_SECONDS if after is None else after)


def _capped(status: int, problem: Mapping[str, Any], day: Day | None, host: str, quoted: str) -> ConfigError:
    period = problem.get("period")
    cap = f"the {period.lower()} usage cap" if isinstance(period, str) and period.isalpha() else "the usage cap"
    following = f"; day {day} is the next one to load: clear its task then" if day is not None else ""
    return ConfigError(
        f"{host} answered {status}: {cap} of the app is reached, and no retry helps before it is reset or "
        f"raised in X's developer console{following}{quoted}"
    )


def _problem(body: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _kind(problem: Mapping[str, Any]) -> str:
    return str(problem.get("type") or "").rstrip("/").rpartition("/")[2].lower()


def _words(problem: Mapping[str, Any]) -> str:
    """Return what a problem says; its ``errors`` say what exactly."""
    texts = [problem.get("title"), problem.get("detail")]
    errors = problem.get("errors")
    for each in errors if isinstance(errors, list) else []:
        if isinstance(each, dict):
            texts += [each.get("message"), each.get("detail")]
    return ": ".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text))


def _whole(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() and len(text) < 20 else None
