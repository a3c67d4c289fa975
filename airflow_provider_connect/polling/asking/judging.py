"""What an answer means, by the declared rules and then by the defaults, and how long it says to wait."""

from __future__ import annotations

import datetime as dt
import email.utils
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from airflow_provider_connect.clients.http.client import ERROR_TEXT_BYTES, retry_after_seconds
from airflow_provider_connect.polling.asking.rules import ErrorRule, Moment, Then, TimeFormat
from airflow_provider_connect.secrets import Secrets
from airflow_provider_connect.values.json.places import MISSING, found, steps

LONGEST_WAIT_SECONDS = 3600.0
"""The most that an answer may ask to be left alone for, in one go."""

_FOR_NOW = (408, 425, 429)
_NO_BODY = (204, 205)
_SECONDS_BELOW = 1e8  # three years; no moment since 1973 is less, in seconds or milliseconds
_EPOCH_SECONDS_BELOW = 1e11
_MOST_JSON_BYTES = 1 << 20

_REFUSED = {
    400: "it does not understand the request: check the declared path, parameters and body",
    401: "it refuses the credentials: check the connection's login, password and auth",
    402: "the account's plan does not include this",
    403: "the credentials have no right to this: ask for it, or check what is asked for",
    404: "there is nothing at that path: check it, and the connection's host",
    405: "it does not take this method: check the declared one",
    410: "what was there is gone for good",
    422: "it refuses what was asked for: check the declared parameters and body",
}


@dataclass(frozen=True)
class Seen:
    """An answer, as far as rules look at it.

    :param headers: their names in small letters.
    :param body: whole for a status 2xx, else its beginning.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status says that all is well."""
        return 200 <= self.status < 300

    def at(self, place: str) -> Any:
        """Return what stands at a place in the JSON body; ``MISSING`` if nothing does, or it is no JSON.

        Of a page of rows no more is decoded than what stands there.
        """
        if len(self.body) <= ERROR_TEXT_BYTES:
            try:
                return found(json.loads(self.body), place)
            except (ValueError, RecursionError):
                return MISSING
        return _within(self.body, place)


def _within(body: bytes, place: str) -> Any:
    import msgspec

    data: Any = body
    try:
        for step in steps(place):
            data = bytes(data).lstrip()
            if data[:1] == b"{":
                data = msgspec.json.decode(data, type=dict[str, msgspec.Raw]).get(step, MISSING)
            elif data[:1] == b"[" and step.isascii() and step.isdigit():
                elements = msgspec.json.decode(data, type=list[msgspec.Raw])
                data = elements[int(step)] if int(step) < len(elements) else MISSING
            else:
                return MISSING
            if data is MISSING:
                return MISSING
        value = bytes(data).lstrip()
        return json.loads(value) if len(value) <= _MOST_JSON_BYTES else value[:1]
    except (ValueError, RecursionError, msgspec.DecodeError):
        return MISSING


class Heard(NamedTuple):
    """A whole answer, and who gave it to whom.

    :param is_cut: whether the body is not all of it: then it may end inside a secret.
    :param secrets: the texts that no message may quote.
    """

    url: str
    seen: Seen
    is_cut: bool
    secrets: Secrets


class Judgement(NamedTuple):
    """What to do about an answer.

    :param wait_seconds: how long it asks to be left alone; None if it does not say.
    :param why: what a refusal means and what to do, in our own words.
    :param said: what the answer itself says of it: of one that could hold rows, only what stands at the rule's place.
    :param is_declared: whether a rule says so, not a default.
    """

    then: Then | Literal["rows"]
    wait_seconds: float | None = None
    why: str = ""
    said: str = ""
    is_declared: bool = False


def judge(seen: Seen, rules: Sequence[ErrorRule], now: dt.datetime) -> Judgement:
    """Say what an answer means.

    :param now: our own clock; where the answer says what time it is, moments are counted from that.
    """
    rule = next((rule for rule in rules if _fits(rule, seen)), None)
    asked = retry_after_seconds(seen.headers.get("retry-after", ""), _clock(seen, now), LONGEST_WAIT_SECONDS)
    if rule is not None:
        said = wait_seconds(rule.until, seen, now) if rule.until is not None else None
        return Judgement(rule.then, asked if said is None else said, rule.why, _said(seen, rule.at), is_declared=True)
    if seen.status in _NO_BODY:
        return Judgement("empty")
    if seen.is_success:
        return Judgement("rows")
    if seen.status >= 500 or seen.status in _FOR_NOW:
        return Judgement("retry", asked, "it cannot serve this now", _said(seen))
    why = _REFUSED.get(seen.status, "which nothing declares: say in errors what it means")
    return Judgement("refuse", None, why, _said(seen))


def _said(seen: Seen, at: str | None = None) -> str:
    if not seen.is_success:
        return seen.body.decode("utf-8", "replace")
    value = MISSING if at is None else seen.at(at)
    return "" if value is MISSING or isinstance(value, bool | bytes) else json.dumps(value)[:ERROR_TEXT_BYTES]


def _fits(rule: ErrorRule, seen: Seen) -> bool:
    statuses = rule.status
    if statuses is not None and not {str(seen.status), f"{seen.status // 100}xx"} & set(statuses):
        return False
    if rule.header is not None:
        value = seen.headers.get(rule.header.lower())
        if value is None or (rule.header_value is not None and value.strip() != rule.header_value):
            return False
    if rule.text is not None:
        if statuses is None and seen.is_success:
            return False
        if rule.text.lower() not in seen.body[:ERROR_TEXT_BYTES].decode("utf-8", "replace").lower():
            return False
    return rule.at is None or _stands(rule, seen.at(rule.at))


def _stands(rule: ErrorRule, value: Any) -> bool:
    if value is MISSING:
        return False
    if rule.values is None:
        return bool(value)
    # True is not 1 here, though Python says so.
    return any(isinstance(value, bool) is isinstance(each, bool) and value == each for each in rule.values)


def wait_seconds(moment: Moment, seen: Seen, now: dt.datetime) -> float | None:
    """Return how long an answer says to wait, from 0 to an hour; None if it does not say so in a way to read."""
    value = seen.headers.get(moment.header.lower()) if moment.header is not None else seen.at(moment.at or "")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    seconds = _seconds(str(value).strip(), moment.format, _clock(seen, now))
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT_SECONDS)


def _seconds(text: str, form: TimeFormat, now: dt.datetime) -> float | None:
    if re.fullmatch(r"-?[0-9]{1,20}(\.[0-9]{1,9})?", text, flags=re.ASCII):
        number = float(text)
        if form == "date":
            return None
        if form == "auto":
            form = "seconds" if number < _SECONDS_BELOW else "epoch_s" if number < _EPOCH_SECONDS_BELOW else "epoch_ms"
        if form == "seconds":
            return number
        return number / (1000 if form == "epoch_ms" else 1) - now.timestamp()
    if form not in ("auto", "date"):
        return None
    date = _date(text)
    return None if date is None else (date - now).total_seconds()


def _clock(seen: Seen, now: dt.datetime) -> dt.datetime:
    """Return what time it is where moments come from: their clock may differ from ours."""
    return _date(seen.headers.get("date", "")) or now


def _date(text: str) -> dt.datetime | None:
    """Read an HTTP date, or one of ISO 8601."""
    for read in (dt.datetime.fromisoformat, email.utils.parsedate_to_datetime):
        try:
            date = read(text)
        except (ValueError, OverflowError):
            continue
        return date if date.tzinfo is not None else date.replace(tzinfo=dt.UTC)
    return None
