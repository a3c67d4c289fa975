"""Who may query the stand-in, and how often: accounts and rate limits.

Statuses and texts follow Mixpanel's documentation and reports of connectors (2026-11):
https://developer.mixpanel.com/reference/service-accounts, /reference/project-secret, /reference/rate-limits.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hmac
import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import Literal

from tests.standins.mixpanel.query import RefusedError


@dataclass(frozen=True)
class Account:
    """Who may read the project.

    :param secret: of the service account ``username``.
    :param project_secret: the older way, sent as the user name with an empty password; None switches it off.
    :param access: ``full``; ``no_plan`` answers 402 and ``no_role`` 403 to right credentials; with ``other_region``
        this host knows nobody and answers 401, as the hosts of Mixpanel's other regions do. ``no_query_plan`` answers
        402 to the Query API alone.
    """

    project_id: int = 1234567
    username: str = "demo.service-account"
    secret: str = field(default="demo-secret", repr=False)
    project_secret: str | None = field(default=None, repr=False)
    access: Literal["full", "no_plan", "no_query_plan", "no_role", "other_region"] = "full"

    def authorize(
        self, authorization: str | None, project_id: str | None, *, is_query: bool = False, takes_secret: bool = True
    ) -> None:
        """Return if the request is authorized.

        :param is_query: whether it is one to the Query API.
        :param takes_secret: whether the API knows project secrets.
        :raises RefusedError: 400, 401, 402 or 403.
        """
        credentials = _basic(authorization)
        by_secret = takes_secret and self.project_secret is not None and _same(credentials, self.project_secret + ":")
        is_known = by_secret or _same(credentials, f"{self.username}:{self.secret}")
        if not is_known or self.access == "other_region":
            raise RefusedError(401, "Unable to authenticate request")
        if project_id is None and not by_secret:
            raise RefusedError(400, "project_id is a required parameter for service account authentication")
        if project_id not in (None, str(self.project_id)) or self.access == "no_role":
            raise RefusedError(403, "User does not have permission to access this project")
        if self.access == "no_plan" or (self.access == "no_query_plan" and is_query):
            raise RefusedError(402, "Your plan does not allow API calls. Upgrade at mixpanel.com/pricing")


def _basic(authorization: str | None) -> bytes | None:
    """Read an Authorization header; the vendor takes ``user:secret`` in base64 or as plain text."""
    scheme, _, value = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return value.encode("latin-1", "replace")


def _same(credentials: bytes | None, expected: str) -> bool:
    """Compare in both encodings that clients use for names outside ASCII."""
    forms = [expected.encode(), expected.encode("latin-1", "replace")]
    return credentials is not None and any(hmac.compare_digest(credentials, form) for form in forms)


@dataclass(frozen=True)
class Limits:
    """The project's rate limits; None switches one off. Mixpanel's own: 60 an hour, 3 a second, 100 at once.

    :param hour_seconds: length of an hour here, for tests that cannot wait for a real one.
    :param retry_after: the header of a 429: ``seconds`` or ``http-date`` for the true time, any other text as it is,
        None for no header.
    :param form: whether the text of a 429 comes alone or inside JSON.
    """

    queries_per_hour: int | None = None
    queries_per_second: int | None = None
    concurrent: int | None = None
    hour_seconds: float = 3600.0
    retry_after: str | None = None
    form: Literal["json", "text"] = "json"


class Gate:
    """Counts a project's queries. A refused one appears in its refusal's counters only."""

    def __init__(self, limits: Limits, project_id: int) -> None:
        self.limits = limits
        self._project_id = project_id
        self._lock = threading.Lock()
        self._starts: deque[float] = deque()
        self._running = 0

    def enter(self, *, is_counted: bool = True) -> None:
        """Start a query.

        :param is_counted: whether it counts to the hour and the second; if not, to those that run at once alone.
        :raises RefusedError: 429, with the counters in the vendor's words.
        """
        with self._lock:
            now = time.monotonic()
            while self._starts and self._starts[0] <= now - self.limits.hour_seconds:
                self._starts.popleft()
            wait_seconds = self._wait_seconds(now, is_counted=is_counted)
            if wait_seconds is not None:
                raise self._refusal(wait_seconds)
            if is_counted:
                self._starts.append(now)
            self._running += 1

    def leave(self) -> None:
        """End a query that entered."""
        with self._lock:
            self._running -= 1

    def _wait_seconds(self, now: float, *, is_counted: bool) -> float | None:
        """Return how long until a query may be accepted; None if one is accepted now."""
        limits, waits = self.limits, []
        if limits.concurrent is not None and self._running >= limits.concurrent:
            waits.append(1.0)
        spans = ((limits.queries_per_hour, limits.hour_seconds), (limits.queries_per_second, 1.0))
        for most, span in spans if is_counted else ():
            recent = [start for start in self._starts if start > now - span]
            if most is not None and len(recent) >= most:
                waits.append(recent[-most] + span - now if most else span)
        return max(waits, default=None)

    def _refusal(self, wait_seconds: float) -> RefusedError:
        limits = self.limits
        message = (
            f"Query rate limit exceeded for project_id: {self._project_id}. "
            f"{self._running + 1}/{limits.concurrent or 100} queries running concurrently and "
            f"{len(self._starts) + 1}/{limits.queries_per_hour or 60} queries running in the last hour"
        )
        seconds = math.ceil(wait_seconds)
        retry_time = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        live = {"seconds": str(seconds), "http-date": format_datetime(retry_time, usegmt=True)}
        retry_after = limits.retry_after and live.get(limits.retry_after, limits.retry_after)
        return RefusedError(429, message, form=limits.form, headers={"Retry-After": retry_after} if retry_after else {})
