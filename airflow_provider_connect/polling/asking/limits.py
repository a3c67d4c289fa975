"""How often an API may be asked, as it is declared. DAG files import this."""

from __future__ import annotations

import hashlib
import math

from pydantic import Field

from airflow_provider_connect.polling.asking.rules import Declared, Moment
from airflow_provider_connect.polling.quota.limits import Quota, plain


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

    @property
    def is_counted(self) -> bool:
        """Whether the API counts requests over a span in which several tasks may ask."""
        return self.per_minute is not None or self.per_hour is not None

    def quota(self, conn_id: str) -> Quota | None:
        """Return what tasks reserve their requests of; None if the API counts none.

        :param conn_id: all who name this connection share it.
        """
        if not self.is_counted:
            return None
        hourly = [self.per_hour, None if self.per_minute is None else 60 * self.per_minute]
        mark = hashlib.sha256(conn_id.encode()).hexdigest()[:8]
        return Quota(
            f"http.{plain(conn_id)[:60]}.{mark}",
            requests=min(each for each in hourly if each is not None),
            per_second=None if self.per_second is None else max(1, math.floor(self.per_second)),
            at_once=self.at_once,
        )
