"""The stand-in's ``POST /api/query/engage``: pages of profiles in sessions with a limited life.

Fields and reply follow https://developer.mixpanel.com/reference/engage-query (2026-11). The answer of an expired
session is not documented. This one uses Mixpanel's text for an uncached query.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import Cohort, People
from tests.standins.mixpanel.query import RefusedError, parse_where

_GONE = "request for page in uncached query"


@dataclass(frozen=True)
class _StoredSession:
    """The profiles of a session, and the properties to send."""

    people: People
    numbers: range | list[int]
    group: str | None
    property_names: frozenset[str] | None
    question: Mapping[str, str]
    until: float


class Engage:
    """Answers requests for pages.

    :param page_size: 1000 at the vendor.
    :param session_seconds: life of a session.
    :param page_seconds: time to answer a page.
    """

    def __init__(self, *, page_size: int = 1000, session_seconds: float = 600.0, page_seconds: float = 0.0) -> None:
        self.page_size = page_size
        self.session_seconds = session_seconds
        self.page_seconds = page_seconds
        self._sessions: dict[str, _StoredSession] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """End every session."""
        with self._lock:
            self._sessions.clear()

    def page(self, people: People, form: Mapping[str, str], fault: Fault | None) -> bytes:
        """Return a page.

        :raises RefusedError: 400.
        """
        if fault is not None and fault.kind == "expired":
            self.forget()
        number = _page(form)
        session_id = form.get("session_id")
        if number and session_id is None:
            raise RefusedError(400, "session_id is required when page is specified")
        if session_id is None:
            session_id, session = self._begin(people, form)
        else:
            session = self._find_session(session_id, form)
        time.sleep(self.page_seconds)
        return _render_page(session, session_id, number, self.page_size, fault)

    def _begin(self, people: People, form: Mapping[str, str]) -> tuple[str, _StoredSession]:
        group = form.get("data_group_id")
        numbers = _numbers(people, group, _cohort(people, form.get("filter_by_cohort")), form.get("where"))
        session_id = f"{int(time.time())}-{secrets.token_hex(4)}"
        until = time.monotonic() + self.session_seconds
        session = _StoredSession(
            people, numbers, group, _property_names(form.get("output_properties")), _question(form), until
        )
        with self._lock:
            self._sessions[session_id] = session
        return session_id, session

    def _find_session(self, session_id: str, form: Mapping[str, str]) -> _StoredSession:
        with self._lock:
            session = self._sessions.get(session_id)
        if session is None or session.until < time.monotonic() or session.question != _question(form):
            raise RefusedError(400, _GONE)
        return session


def _page(form: Mapping[str, str]) -> int:
    text = form.get("page", "0")
    if not (text.isascii() and text.isdigit()):
        raise RefusedError(400, "page must be a whole number")
    return int(text)


def _question(form: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in form.items() if name not in ("page", "session_id")}


def _numbers(people: People, group: str | None, cohort: Cohort | None, expression: str | None) -> range | list[int]:
    numbers = range(0, people.count(group), cohort.every if cohort else 1)
    wants = parse_where(expression, orders_texts=True)
    return numbers if wants is None else [number for number in numbers if wants(people.properties(number))]


def _cohort(people: People, text: str | None) -> Cohort | None:
    if text is None:
        return None
    try:
        cohort = people.cohort(json.loads(text)["id"])
    except (ValueError, TypeError, KeyError):
        raise RefusedError(400, 'filter_by_cohort must be like {"id":12345}') from None
    if cohort is None:
        raise RefusedError(400, "cohort does not exist")
    if not cohort.has_group:
        # Seen with status 404 by Estuary: https://github.com/estuary/connectors/pull/2550 (2026-11).
        raise RefusedError(404, "Missing Datagroup")
    return cohort


def _property_names(text: str | None) -> frozenset[str] | None:
    if text is None:
        return None
    try:
        return frozenset(json.loads(text))
    except (ValueError, TypeError):
        raise RefusedError(400, "output_properties must be a JSON array of strings") from None


def _render_page(session: _StoredSession, session_id: str, number: int, size: int, fault: Fault | None) -> bytes:
    kind = fault.kind if fault else "none"
    page_number = max(number - 1, 0) if kind == "page_again" else number
    numbers = session.numbers[page_number * size : (page_number + 1) * size]
    if kind == "empty_page":
        numbers = numbers[:0]
    elif kind == "short_page":
        numbers = numbers[:-1]
    profiles = [
        session.people.profile(profile_number, session.group, session.property_names) for profile_number in numbers
    ]
    if fault is not None and kind == "bad_profile":
        profiles[: fault.count] = [b'{"$properties":{"plan":"nobody\'s"}}'] * fault.count
    head: dict[str, Any] = {"page": number + (kind == "wrong_page"), "page_size": size}
    tail: dict[str, Any] = {
        "session_id": "another" if kind == "other_session" else session_id,
        "status": "ok",
    }
    if number == 0 or kind == "wrong_total":
        # Only the first page has the total: Airbyte's EngagePaginationStrategy (github.com/airbytehq/airbyte) and
        # Estuary's source-mixpanel-native (github.com/estuary/connectors) note it (2026-11).
        tail["total"] = len(session.numbers) + (kind == "wrong_total")
    return b'%b,"results":[%b],%b' % (
        json.dumps(head, separators=(",", ":")).encode()[:-1],
        b",".join(profiles),
        json.dumps(tail, separators=(",", ":")).encode()[1:],
    )
