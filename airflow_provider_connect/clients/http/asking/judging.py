"""Classifies answers by declared rules, then defaults. Reads requested pauses."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from airflow_provider_connect.clients.http.asking.call import Reply
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, Moment, RuleAction, TimeFormat
from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, retry_after_seconds
from airflow_provider_connect.values.json.paths import MISSING

LONGEST_WAIT_SECONDS = 3600.0
"""Longest accepted pause."""

_TEMPORARY_STATUSES = (408, 425, 429)
_NO_BODY = (204, 205)
_ACCEPTED = 202
_ACCEPTED_REASON = (
    "the request is accepted, and its answer is not ready. If such answers hold records, add a rule of status 202 with "
    "then='rows' to errors"
)
_SECONDS_BELOW = 1e8  # three years; no moment since 1973 is less, in seconds or milliseconds
_EPOCH_SECONDS_BELOW = 1e11

_REFUSAL_REASONS = {
    400: "the request is invalid: check the declared path, parameters and body",
    401: "the API refuses the credentials: check the connection's login, password and auth",
    402: "the account's plan does not include this",
    403: "the credentials lack the permission: request it from the service, or check the request",
    404: "the path does not exist: check it, and the connection's host",
    405: "the method is not allowed: check the declared method",
    410: "the resource was removed permanently",
    422: "the API refuses the request: check the declared parameters and body",
}


class Judgement(NamedTuple):
    """Classification of an answer.

    :param wait_seconds: requested pause, or None.
    :param server_text: text of the answer. If it may hold rows, only the value at the rule's path.
    """

    action: RuleAction
    wait_seconds: float | None = None
    reason: str = ""
    server_text: str = ""
    is_declared: bool = False


def demands_login(reply: Reply, rules: Sequence[ErrorRule], current_time: dt.datetime) -> bool:
    """Return True if an answer shows that the credentials have expired: a 401, or by a rule with ``login``."""
    if reply.status == 401:
        return True
    return any(rule.then == "login" for rule in rules) and judge(reply, rules, current_time).action == "login"


def judge(reply: Reply, rules: Sequence[ErrorRule], current_time: dt.datetime) -> Judgement:
    """Classify an answer.

    :param current_time: replaced by a ``Date`` header.
    """
    is_temporary = reply.status >= 500 or reply.status in _TEMPORARY_STATUSES
    rule = next(
        (rule for rule in rules if _rule_matches(rule, reply) and not (is_temporary and _is_about_bodies(rule))), None
    )
    retry_after = retry_after_seconds(reply.header("Retry-After"), _clock(reply, current_time), LONGEST_WAIT_SECONDS)
    if rule is not None:
        declared_wait = wait_seconds(rule.until, reply, current_time) if rule.until is not None else None
        return Judgement(
            rule.then,
            retry_after if declared_wait is None else declared_wait,
            rule.why,
            _server_text(reply, rule.at),
            is_declared=True,
        )
    if reply.status in _NO_BODY:
        return Judgement("empty")
    if reply.status == _ACCEPTED:
        return Judgement("retry", retry_after, _ACCEPTED_REASON)
    if reply.is_success:
        return Judgement("rows")
    if is_temporary:
        return Judgement("retry", retry_after, "the service is unavailable now", _server_text(reply))
    reason = _REFUSAL_REASONS.get(reply.status, "no rule declares this status: add one to errors")
    return Judgement("refuse", None, reason, _server_text(reply))


def _is_about_bodies(rule: ErrorRule) -> bool:
    return (rule.status, rule.header, rule.text) == (None, None, None) and rule.then not in ("retry", "wait")


def _server_text(reply: Reply, at: str | None = None) -> str:
    if not reply.is_success:
        return reply.text
    value = MISSING if at is None else reply.at(at)
    return "" if value is MISSING or isinstance(value, bool | bytes) else json.dumps(value)[:ERROR_TEXT_BYTES]


def _rule_matches(rule: ErrorRule, reply: Reply) -> bool:
    statuses = rule.status
    if statuses is not None and not {str(reply.status), f"{reply.status // 100}xx"} & set(statuses):
        return False
    if rule.header is not None:
        value = reply.headers.get(rule.header.lower())
        if value is None or (rule.header_value is not None and not _header_matches(rule, value.strip())):
            return False
    if rule.text is not None:
        if statuses is None and reply.is_success:
            return False
        if rule.text.lower() not in reply.body[:ERROR_TEXT_BYTES].decode("utf-8", "replace").lower():
            return False
    return rule.at is None or _value_matches(rule, reply.at(rule.at))


def _header_matches(rule: ErrorRule, value: str) -> bool:
    if rule.header is not None and rule.header.lower() == "location" and value != rule.header_value:
        value = urlsplit(value).path
    return value == rule.header_value


def _value_matches(rule: ErrorRule, value: Any) -> bool:
    if value is MISSING:
        return False
    if rule.values is None:
        return bool(value)
    # In JSON true differs from 1, unlike in Python.
    return any(isinstance(value, bool) is isinstance(expected, bool) and value == expected for expected in rule.values)


def wait_seconds(moment: Moment, reply: Reply, current_time: dt.datetime) -> float | None:
    """Return the pause that an answer requests, from 0 to 3600 seconds, or None."""
    value = reply.headers.get(moment.header.lower()) if moment.header is not None else reply.at(moment.at or "")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    seconds = _seconds(str(value).strip(), moment.format, _clock(reply, current_time))
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def _seconds(text: str, form: TimeFormat, current_time: dt.datetime) -> float | None:
    if re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,9})?", text, flags=re.ASCII):
        number = float(text)
        if form == "date":
            return None
        if form == "auto":
            form = "seconds" if number < _SECONDS_BELOW else "epoch_s" if number < _EPOCH_SECONDS_BELOW else "epoch_ms"
        if form == "seconds":
            return number
        return number / (1000 if form == "epoch_ms" else 1) - current_time.timestamp()
    if form not in ("auto", "date"):
        return None
    date = _date(text)
    return None if date is None else (date - current_time).total_seconds()


def _clock(reply: Reply, current_time: dt.datetime) -> dt.datetime:
    return _date(reply.header("Date")) or current_time


def _date(text: str) -> dt.datetime | None:
    for read in (dt.datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            date = read(text)
        except (ValueError, OverflowError):
            continue
        return date if date.tzinfo is not None else date.replace(tzinfo=dt.UTC)
    return None
