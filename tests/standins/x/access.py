"""Access to the stand-in: the app's token, its windows of fifteen minutes, and its monthly cap."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

_TYPES = "https://api.x.com/2/problems/"


class RefusedError(Exception):
    """A request is answered with a problem."""

    def __init__(self, status: int, title: str, detail: str, kind: str = "invalid-request", **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.headers: dict[str, str] = {}
        self.document = {"title": title, "detail": detail, "type": _TYPES + kind, "status": status} | more


def invalid(detail: str) -> RefusedError:
    """Return the refusal of a request that is wrong."""
    return RefusedError(
        400, "Invalid Request", "One or more parameters to your request was invalid.", errors=[{"message": detail}]
    )


def usage_cap() -> RefusedError:
    """Return the refusal of an app that has read its month's posts."""
    return RefusedError(
        429,
        "UsageCapExceeded",
        "Usage cap exceeded: Monthly product cap",
        "usage-capped",
        period="Monthly",
        scope="Product",
        product_name="pay-per-use",
        account_id=1234567890,
    )


@dataclass(frozen=True)
class App:
    """The app that may search.

    :param access: ``recent_only`` answers 403 to the archive, ``no_project`` to everything.
    :param level: decides how long queries may be.
    """

    token: str = field(default="AAAA-demo-bearer", repr=False)
    access: Literal["full", "recent_only", "no_project"] = "full"
    level: Literal["self_serve", "enterprise"] = "self_serve"

    def authorize(self, authorization: str | None, endpoint: str) -> None:
        """Return if the request is authorized.

        :raises RefusedError: 401 or 403.
        """
        if authorization != f"Bearer {self.token}":
            raise RefusedError(401, "Unauthorized", "Unauthorized", "about:blank")
        if self.access == "no_project" or (self.access == "recent_only" and endpoint.endswith("/all")):
            raise RefusedError(
                403,
                "Client Forbidden",
                "This request must be made using an approved developer account that is enrolled in the requested "
                "endpoint.",
                "client-forbidden",
                reason="client-not-enrolled",
            )


@dataclass(frozen=True)
class Limits:
    """How often the app may ask in ``seconds``, by endpoint; and in a second, of the archive; and posts in a month."""

    requests: Mapping[str, int] = field(
        default_factory=lambda: {"search/recent": 450, "search/all": 300, "counts/recent": 300, "counts/all": 300}
    )
    seconds: float = 900.0
    per_second: int | None = None
    monthly_posts: int | None = None


class Gate:
    """Counts the app's requests, refused ones included."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self.limits = limits
        self.posts = 0
        self._now = now
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[float, int]] = {}
        self._recent: deque[float] = deque()

    def enter(self, endpoint: str) -> dict[str, str]:
        """Count a request. Returns the headers of its window.

        :raises RefusedError: 429.
        """
        limits, now = self.limits, self._now()
        most = limits.requests.get(endpoint, 50)
        with self._lock:
            began, used = self._windows.get(endpoint, (now, 0))
            if now >= began + limits.seconds:
                began, used = now, 0
            self._windows[endpoint] = (began, used + 1)
            headers = rate_headers(most, max(0, most - used - 1), math.ceil(began + limits.seconds))
            if used >= most or (endpoint.endswith("search/all") and self._is_too_fast()):
                raise rate_limit(headers)
            if limits.monthly_posts is not None and self.posts >= limits.monthly_posts:
                refusal = usage_cap()
                refusal.headers = headers
                raise refusal
        return headers

    def read(self, posts: int) -> None:
        """Count posts to the month."""
        with self._lock:
            self.posts += posts

    def _is_too_fast(self) -> bool:
        if self.limits.per_second is None:
            return False
        now = time.monotonic()
        while self._recent and self._recent[0] <= now - 1:
            self._recent.popleft()
        self._recent.append(now)
        return len(self._recent) > self.limits.per_second


def rate_headers(limit: int, remaining: int, reset: float) -> dict[str, str]:
    """Return the headers of a window."""
    return {
        "x-rate-limit-limit": str(limit),
        "x-rate-limit-remaining": str(remaining),
        "x-rate-limit-reset": str(math.ceil(reset)),
    }


def rate_limit(headers: dict[str, str]) -> RefusedError:
    """Return the refusal of an app that asks too often."""
    refusal = RefusedError(429, "Too Many Requests", "Too Many Requests", "rate-limit-exceeded")
    refusal.headers = headers
    return refusal
