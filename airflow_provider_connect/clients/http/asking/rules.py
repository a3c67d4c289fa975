"""Declares error rules and rate limits of an API.

The first matching rule decides. A rule by ``at`` alone, unless it retries or waits, does not apply to 408, 425, 429 and
5xx. By default these are retried, 204 and 205 are empty, every other 2xx has rows, and other statuses are refused.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from airflow_provider_connect.values.json.paths import FieldPath

RuleAction = Literal["retry", "wait", "refuse", "ignore", "empty", "rows", "login"]
TimeFormat = Literal["auto", "seconds", "epoch_s", "epoch_ms", "date"]

_STATUS = re.compile(r"[1-5](?:[0-9]{2}|xx)")
Scalar = str | int | float | bool | None


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _as_values(value: Any) -> Any:
    return None if value is None else _as_list(value)


def _as_statuses(value: Any) -> Any:
    if value is None:
        return None
    statuses = [str(status).lower() for status in _as_list(value)]
    if not all(_STATUS.fullmatch(status) for status in statuses):
        raise ValueError("set statuses such as 403 or '5xx', or a list of them")
    return statuses


class Declared(BaseModel):
    """Base of declarations: plain data without secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Moment(Declared):
    """Where an answer states a pause, as a duration or an end."""

    header: str | None = Field(default=None, description="Header with the pause.")
    at: FieldPath | None = Field(default=None, description="Location in the JSON body, such as /error/retry_after.")
    format: TimeFormat = Field(
        default="auto",
        description="seconds: a duration. epoch_s, epoch_ms, date: an end. auto: distinguish them by size.",
    )

    @model_validator(mode="after")
    def _has_one_location(self) -> Moment:
        if (self.header is None) == (self.at is None):
            raise ValueError("set either header or at")
        return self


class ErrorRule(Declared):
    """A rule for answers that meet all its conditions."""

    status: Annotated[tuple[str, ...] | None, BeforeValidator(_as_statuses)] = Field(
        default=None,
        description="Status or statuses, such as 403 or '5xx'. By default any. A text alone matches only errors, "
        "because a row could contain it.",
    )
    header: str | None = Field(default=None, description="Name of a header in the answer.")
    header_value: str | None = Field(
        default=None, description="Value of that header, or the path of a Location. By default any."
    )
    text: str | None = Field(
        default=None,
        min_length=1,
        description="Text in the first 8 KiB of the body. Case is ignored.",
    )
    at: FieldPath | None = Field(
        default=None,
        description="Location in the JSON body, such as error or /error/code. Its value must not be null, false, 0 or "
        "empty, or must be one of values. Without status, a 408, 425, 429 or 5xx is retried whatever its body.",
    )
    values: Annotated[tuple[Scalar, ...] | None, BeforeValidator(_as_values)] = Field(
        default=None, description="Accepted values at that location."
    )
    then: RuleAction = Field(
        description="retry: repeat after a pause. wait: repeat at the time in the answer. refuse: fail until a person "
        "acts. ignore: skip this parent. empty: no rows. rows: read the answer as a page. login: fetch new "
        "credentials, then repeat once, as after a 401."
    )
    until: Moment | None = Field(
        default=None, description="Location of the pause in the answer. By default Retry-After."
    )
    why: str = Field(default="", description="Cause and remedy, for the message of a refusal.")

    @model_validator(mode="after")
    def _has_a_condition(self) -> ErrorRule:
        if self.status is None and self.header is None and self.text is None and self.at is None:
            raise ValueError("set at least one of status, header, text and at")
        if self.values is not None and self.at is None:
            raise ValueError("values requires at, their location")
        if self.header_value is not None and self.header is None:
            raise ValueError("header_value requires header")
        if self.until is not None and self.then not in ("retry", "wait"):
            raise ValueError("until requires then='wait' or 'retry'")
        return self


class RateLimits(Declared):
    """Rate limits that all users of the connection share.

    A limit per minute counts as 60 times as many per hour. Only one job's processes share the other limits.
    """

    per_second: float | None = Field(default=None, gt=0, description="Largest number of requests in a second.")
    per_minute: int | None = Field(default=None, gt=0, description="Largest number of requests in a minute.")
    per_hour: int | None = Field(default=None, gt=0, description="Largest number of requests in an hour.")
    at_once: int | None = Field(default=None, gt=0, description="Largest number of concurrent requests.")
    remaining: str | None = Field(
        default=None,
        description="Header with the remaining requests, such as x-ratelimit-remaining. At 0 nothing is sent until "
        "reset, and a status 403 counts as a 429.",
    )
    reset: Moment | None = Field(
        default=None,
        description="Location of the time at which requests are available again, for remaining and for a status 429.",
    )

    @property
    def max_processes(self) -> int | None:
        """Most processes that can divide the limits without rounding up, or None."""
        rates = (self.at_once, self.per_second, self.per_minute)
        return min((max(1, math.floor(rate)) for rate in rates if rate is not None), default=None)
