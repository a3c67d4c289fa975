"""The parameters of a raw export that the stand-in understands.

They are those of https://developer.mixpanel.com/reference/raw-event-export (2026-11): ``from_date`` and ``to_date``,
both included, ``event``, ``where``, ``limit`` and ``time_in_ms``.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from tests.standins.mixpanel.events import TimeUnit
from tests.standins.mixpanel.expressions import Wants, parse

MAX_LIMIT = 100_000


class RefusedError(Exception):
    """A request that the vendor would refuse.

    :param form: the vendor answers with JSON, or sometimes with plain text.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        form: Literal["json", "text"] = "json",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.form = form
        self.headers = headers or {}


@dataclass(frozen=True)
class Query:
    """One parsed export request."""

    first: dt.date
    last: dt.date
    events: frozenset[str] | None
    condition: Wants | None
    limit: int | None
    unit: TimeUnit
    selection_text: str = ""
    """The text of ``event``, ``where`` and ``limit``: the same text selects the same lines."""

    @property
    def dates(self) -> tuple[dt.date, ...]:
        """Every requested date, both ends included."""
        return tuple(self.first + dt.timedelta(days=i) for i in range((self.last - self.first).days + 1))

    def select_lines(self, lines: Iterable[bytes]) -> list[bytes]:
        """Return the lines that ``event``, ``where`` and ``limit`` select."""
        return list(self.iter_selected_lines(lines))

    def iter_selected_lines(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the result of :meth:`select_lines`."""
        return islice((line for line in lines if self.selects_all or self._wants(json.loads(line))), self.limit)

    @property
    def selects_all(self) -> bool:
        """True if the request names only dates."""
        return self.events is None and self.condition is None and self.limit is None

    def _wants(self, row: dict[str, Any]) -> bool:
        if self.events is not None and row["event"] not in self.events:
            return False
        return self.condition is None or self.condition(row["properties"])


def parse_query(target: str, today: dt.date) -> Query:
    """Read the query of a request target.

    :raises RefusedError: 400.
    """
    values = {name: texts[-1] for name, texts in parse_qs(urlsplit(target).query, keep_blank_values=True).items()}
    first, last = _date(values, "from_date"), _date(values, "to_date")
    if last > today:
        raise RefusedError(400, "to_date cannot be later than today", form="text")
    if first > last:
        raise RefusedError(400, "from_date cannot be later than to_date")
    if values.get("time_in_ms", "false").lower() not in ("true", "false"):
        raise RefusedError(400, "time_in_ms must be true or false")
    return Query(
        first=first,
        last=last,
        events=_events(values.get("event")),
        condition=parse_where(values.get("where")),
        limit=_limit(values.get("limit")),
        unit="ms" if values.get("time_in_ms", "").lower() == "true" else "s",
        selection_text=json.dumps([values.get(name) for name in ("event", "where", "limit")]),
    )


def _date(values: dict[str, str], name: str) -> dt.date:
    text = values.get(name)
    if text is None:
        raise RefusedError(400, f"{name} is a required parameter")
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007  # a date has no zone
    except ValueError:
        raise RefusedError(400, f"{name} must be in the format yyyy-mm-dd") from None


def _events(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RefusedError(400, "event must be a JSON array of strings")
    return frozenset(names)


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_LIMIT:
        raise RefusedError(400, f"limit must be an integer from 1 to {MAX_LIMIT}")
    return int(text)


def parse_where(text: str | None, *, orders_texts: bool = False) -> Wants | None:
    """Read an expression.

    :param orders_texts: whether texts may be greater or less, as the times of profiles are.
    :raises RefusedError: 400.
    """
    if text is None:
        return None
    try:
        return parse(text, orders_texts=orders_texts)
    except ValueError:
        raise RefusedError(400, "where is not an expression this server understands") from None
