"""API client that counts requests against a quota, which all tasks share."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

from airflow_provider_connect.clients.http.asking.call import Call, Reply
from airflow_provider_connect.clients.http.asking.rules import RateLimits
from airflow_provider_connect.clients.http.json_api import JsonApi, LeaveAloneError
from airflow_provider_connect.closing import Closable
from airflow_provider_connect.errors import ConnectError, QuotaError, RetriableError
from airflow_provider_connect.polling.quota.limits import Quota, as_key_part
from airflow_provider_connect.polling.tally import Tally


class CountedApi(Closable):
    """API client of one poll. Thread-safe."""

    def __init__(self, api: JsonApi, quota: Quota | None) -> None:
        self._api = api
        self._quota = quota
        self.clock = api.clock

    def ask(
        self,
        call: Call,
        tally: Tally,
        *,
        on_sent: Callable[[], None] = lambda: None,
        error_of: Callable[[Reply], ConnectError | None] = lambda _: None,
    ) -> Reply:
        """Send a call and return the whole answer.

        :raises QuotaError: the API requests a pause.
        """

        def count() -> None:
            if self._quota is not None:
                tally.request()
            on_sent()

        try:
            return self._api.ask(call, on_sent=count, on_received=tally.received, error_of=error_of)
        except LeaveAloneError as error:
            wait = error.retry_after_seconds
            if self._quota is None or wait is None:
                raise RetriableError(str(error), retry_after_seconds=wait) from None
            # The API does not report its count. Its pause applies to all tasks.
            vendor_usage = (0, self._quota.requests, wait)
            raise QuotaError(str(error), said=vendor_usage, retry_after_seconds=wait) from None

    def close(self) -> None:
        """Make reads and pauses of other threads fail now."""
        self._api.close()


def declared_quota(limits: RateLimits | None, conn_id: str) -> Quota | None:
    """Return the hourly quota for declared limits, None without limits a minute or an hour.

    :param conn_id: the connection whose users share the quota.
    """
    if limits is None or (limits.per_minute is None and limits.per_hour is None):
        return None
    hourly_limits = [limits.per_hour, None if limits.per_minute is None else 60 * limits.per_minute]
    conn_hash = hashlib.sha256(conn_id.encode()).hexdigest()[:8]
    return Quota(
        f"http.{as_key_part(conn_id)[:60]}.{conn_hash}",
        requests=min(limit for limit in hourly_limits if limit is not None),
        per_second=None if limits.per_second is None else max(1, math.floor(limits.per_second)),
        at_once=limits.at_once,
    )
