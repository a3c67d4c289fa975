"""What the answers of an API mean and how often it may be asked, as it is declared. DAG files import this.

A rule names answers, by status, header, text or a value in the JSON body, and says what to do about them. The first
rule that fits counts; then come the defaults, which are right for most APIs: 408, 425, 429 and 5xx are asked again,
204 and 205 are empty, every other 2xx has rows, and all else is refused.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from airflow_provider_connect.values.json.paths import FieldPath

RuleAction = Literal["retry", "wait", "refuse", "ignore", "empty"]
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
        raise ValueError("give statuses such as 403 or '5xx', or a list of them")
    return statuses


class Declared(BaseModel):
    """Part of a declaration: plain data without secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Moment(Declared):
    """Where an answer says for how long, or until when, to leave the API alone."""

    header: str | None = Field(default=None, description="Name of the header that says it.")
    at: FieldPath | None = Field(
        default=None, description="Where it stands in the JSON body, such as /error/retry_after."
    )
    format: TimeFormat = Field(
        default="auto",
        description="seconds to wait, a moment as epoch_s, epoch_ms or date; auto tells them apart by their size.",
    )

    @model_validator(mode="after")
    def _has_one_location(self) -> Moment:
        if (self.header is None) == (self.at is None):
            raise ValueError("give either header or at")
        return self


class ErrorRule(Declared):
    """Answers, and what to do about them. An answer has to fit all that the rule names of it."""

    status: Annotated[tuple[str, ...] | None, BeforeValidator(_as_statuses)] = Field(
        default=None,
        description="Status or statuses, such as 403 or '5xx'. By default any; but a text alone is looked for in "
        "errors only, as a row could hold it, too.",
    )
    header: str | None = Field(default=None, description="Name of a header that the answer has.")
    header_value: str | None = Field(default=None, description="The value of that header; by default any.")
    text: str | None = Field(
        default=None,
        min_length=1,
        description="Text in the first 8 KiB of the body, in small letters or capitals.",
    )
    at: FieldPath | None = Field(
        default=None,
        description="Place in the JSON body, such as error or /error/code. Something stands there that is neither "
        "null, false, 0 nor empty; with values, one of these.",
    )
    values: Annotated[tuple[Scalar, ...] | None, BeforeValidator(_as_values)] = Field(
        default=None, description="What stands at that place: one of these."
    )
    then: RuleAction = Field(
        description="retry: ask again, after a pause. wait: ask again when the answer says. refuse: end, a person must "
        "act. ignore: nothing is to be had for this parent. empty: there are no rows."
    )
    until: Moment | None = Field(
        default=None, description="Where the answer says how long to wait; by default in Retry-After."
    )
    why: str = Field(default="", description="What it means and what to do, for the message of a refusal.")

    @model_validator(mode="after")
    def _has_a_condition(self) -> ErrorRule:
        if self.status is None and self.header is None and self.text is None and self.at is None:
            raise ValueError("name the answers that are meant: by status, header, text or at")
        if self.values is not None and self.at is None:
            raise ValueError("values needs at, the place where they stand")
        if self.header_value is not None and self.header is None:
            raise ValueError("header_value needs a header")
        if self.until is not None and self.then not in ("retry", "wait"):
            raise ValueError("until belongs to then='wait' or 'retry'")
        return self


class RateLimits(Declared):
    """What all who name the connection share.

    Limits for an hour or a minute are shared by all tasks: each reserves its part before it begins. A minute's counts
    there as its sixtieth part of an hour, since no job begins and ends within a minute. For a second, a minute and at
    once, the processes of one job share them; they know nothing of other jobs, whose requests the API may refuse for
    now. That is waited for.
    """

    per_second: float | None = Field(default=None, gt=0, description="The most requests in a second.")
    per_minute: int | None = Field(default=None, gt=0, description="The most requests in a minute.")
    per_hour: int | None = Field(default=None, gt=0, description="The most requests in an hour.")
    at_once: int | None = Field(default=None, gt=0, description="The most requests that may be under way.")
    remaining: str | None = Field(
        default=None,
        description="Header that tells how many requests are left, such as x-ratelimit-remaining. At 0 nothing is sent "
        "until reset, and a status 403 is waited for like a 429.",
    )
    reset: Moment | None = Field(
        default=None, description="Where an answer tells when there are more: for remaining, and for a status 429."
    )
