"""What can go wrong with a search, and when: the faults of the stand-in and their schedule."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.standins.schedule import Schedule
from tests.standins.wire import WIRE_KINDS

REFUSAL_KINDS = frozenset({"status", "html", "rate_limit", "rate_limit_88", "usage_cap", "expired_token"})
PAGE_KINDS = frozenset(
    {
        "error_document",
        "partial_error",
        "empty_page",
        "short_page",
        "page_again",
        "overlap",
        "same_token",
        "repeating",
        "other_day",
        "no_time",
        "no_id",
        "surrogate",
        "out_of_order",
    }
)
KINDS = WIRE_KINDS | REFUSAL_KINDS | PAGE_KINDS | {"none"}


@dataclass(frozen=True)
class Fault:
    """One fault, for the first ``times`` requests that match it.

    ================ ====================================================================================
    kind             what the client gets
    ================ ====================================================================================
    none             nothing wrong: lets a request pass before the next fault in the schedule
    status           ``status`` with ``headers`` and ``body``
    html             200, a login page as text/html
    rate_limit       429 as problem JSON, with the headers of a window that ends in ``seconds``
    rate_limit_88    the same as ``{"errors": [{"code": 88, …}]}``
    usage_cap        429 UsageCapExceeded, with a window that has room
    expired_token    400: the next_token is not valid any more
    error_document   200, a problem and nothing else
    partial_error    200, the page and an error that names nothing of it
    empty_page       200, no posts, and a next_token that leads to this page
    short_page       200, half of the page's posts, and a next_token that leads to the others
    page_again       200, the page before, with the next_token of this one
    overlap          200, the page, and before it the last two posts of the page before
    same_token       200, the page, with the next_token that was sent
    repeating        200, the page, with a new next_token that leads to it again
    other_day        200, the page, and behind it two posts of the day before
    no_time          200, the page, whose first post lacks created_at
    no_id            200, the page, whose first post lacks its id
    surrogate        200, the page, whose first post's text has half a character
    out_of_order     200, the page, and a post of the page before at its end
    cut_chunked, short_length, eof_delimited, reset, refuse, silent, slow: on the wire: see the Mixpanel stand-in's
    ================ ====================================================================================

    :param path: only requests whose path ends so: ``search/recent``, ``search/all``, ``counts/recent``, ``counts/all``.
    :param date: only requests whose ``start_time`` is on this date; None for any.
    :param page: only the page of this number, from 1 on; None for any.
    :param times: how many requests; None for all.
    :raises ValueError: for an unknown kind.
    """

    kind: str
    date: dt.date | None = None
    page: int | None = None
    path: str = ""
    times: int | None = 1
    at: float = 0.5
    seconds: float = 1.0
    size_bytes: int = 1024
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = (
        '{"title": "Service Unavailable", "type": "about:blank", "status": 503, "detail": "Service Unavailable"}'
    )

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown fault {self.kind!r}; known: {', '.join(sorted(KINDS))}")

    @classmethod
    def from_json(cls, options: dict[str, Any]) -> Fault:
        """Make a fault from JSON; the date is text."""
        date = options.get("date")
        return cls(**options | {"date": dt.date.fromisoformat(date) if date else None})

    def as_json(self) -> dict[str, Any]:
        """Return the JSON that :meth:`from_json` reads."""
        return asdict(self) | {"date": self.date and self.date.isoformat(), "headers": dict(self.headers)}


class FaultSchedule(Schedule[Fault]):
    """The faults of searches and counts still to come."""

    def take(self, path: str, date: dt.date | None, page: int) -> Fault | None:
        """Return the fault for a request, and count it as spent."""
        return self.take_first(
            lambda fault: fault.date in (None, date) and fault.page in (None, page) and path.endswith(fault.path)
        )
