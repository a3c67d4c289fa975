"""How often an API may be asked, as it is declared. DAG files import this."""

from __future__ import annotations

from pydantic import Field

from airflow_provider_connect.clients.http.asking.rules import Declared, Moment


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
