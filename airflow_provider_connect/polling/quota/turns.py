"""Reserves parts of a quota in a store that cannot compare and set.

No writer changes another writer's keys:

1. First look: without room, or if earlier tasks claim it, the task waits in the queue.
2. The task writes a hold (reservation): a key of its own.
3. Second look: if all holds fit together, it may send. Otherwise it deletes its hold and looks again.

The limit is never passed, whatever the delays and clocks. Clocks may differ by :attr:`.Quota.slack_seconds`.

No task starves.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from airflow_provider_connect.errors import QuotaError
from airflow_provider_connect.patience import CLOCK
from airflow_provider_connect.polling.quota.book import (
    Hold,
    QueueEntry,
    QuotaBook,
    SentRequests,
    VendorUsage,
    prefix_of,
)
from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim

_LOOKS = 4
_PAUSE_SECONDS = 0.5


class KeyStore(Protocol):
    """Store of keys. A listing must include every key that was added before it began."""

    def add(self, key: str) -> None:
        """Add a key."""

    def keys(self, prefix: str) -> list[str]:
        """Return all keys with this prefix that exist at one instant."""

    def delete(self, key: str) -> None:
        """Delete a key if it exists."""


@dataclass(frozen=True)
class Grant:
    """A part of the quota that a task may use.

    :param until: end of the permission, by the task's own clock.
    :param requests_left: unreserved requests.
    """

    hold: Hold
    requests: int
    width: int
    until: float
    requests_left: int


@dataclass(frozen=True)
class QuotaWait:
    """Answer if there is no room.

    :param until: time of the next attempt, by the task's own clock.
    """

    until: float
    reason: str


@dataclass(frozen=True)
class Turns:
    """Reservations of one quota in a store, by one task or person."""

    store: KeyStore
    quota: Quota
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = CLOCK.sleep

    def reserve(self, claim: QuotaClaim) -> Grant | QuotaWait:
        """Reserve a part of the quota. Without room, returns the time of the next attempt.

        Takes one or two listings.
        """
        for look in range(_LOOKS):
            book, since = self._look(claim)
            requests, width = book.offer(claim, since, self.now())
            if not requests:
                break
            hold = Hold(secrets.token_hex(8), self.now(), requests, width)
            self._add(hold.name)
            if (requests_left := self._room_next_to(hold)) is not None:
                self._clean(claim)
                until = hold.at + self.quota.valid_seconds - self.quota.lag_seconds
                return Grant(hold, requests, width, until, requests_left)
            self._delete(hold.name)
            self._queue(claim, since, self.now())
            self.sleep(self.quota.slack_seconds * _PAUSE_SECONDS * (look + random.random()))  # noqa: S311
        return self.join_queue(claim)

    def join_queue(self, claim: QuotaClaim) -> QuotaWait:
        """Enter the queue, or keep the place in it. Returns the time of the next attempt."""
        book, since = self._look(claim)
        clock_seconds = self.now()
        next_attempt = book.next_attempt_time(claim, since, clock_seconds)
        self._queue(claim, since, next_attempt)
        self._sweep(book, clock_seconds)
        others_text = f", {others} of them by others" if (others := book.requests_by_others(clock_seconds)) else ""
        used = book.used_requests(clock_seconds) + others
        reason = f"{used} of {self.quota.describe()} of {self.quota.name} are in use{others_text}"
        if ahead := book.requests_ahead(claim, since, clock_seconds):
            reason += f". Tasks ahead in the queue claim {ahead}"
        return QuotaWait(next_attempt, reason)

    def has_room(self, claim: QuotaClaim) -> bool:
        """Return True if :meth:`reserve` may succeed now."""
        book, since = self._look(claim)
        return book.offer(claim, since, self.now())[0] > 0

    def settle(self, grant: Grant, send_times: Sequence[float]) -> None:
        """End a reservation: record when its requests were sent, and return the unused ones."""
        if send_times:
            self._add(SentRequests.from_times(grant.hold.id, send_times, self.quota).name)
        self._delete(grant.hold.name)

    def record_vendor_usage(self, used: int, limit: int, wait_seconds: float = 0.0) -> None:
        """Record the vendor's own count for the last hour."""
        self._add(VendorUsage(self.now(), used, limit, wait_seconds).name)

    def _look(self, claim: QuotaClaim) -> tuple[QuotaBook, float]:
        book = self._book()
        entry = book.queue_entry_of(claim)
        return book, self.now() if entry is None else entry.since

    def _book(self) -> QuotaBook:
        return QuotaBook.read(self.quota, self.store.keys(prefix_of(self.quota)))

    def _room_next_to(self, hold: Hold) -> int | None:
        book = self._book()
        clock_seconds = self.now()
        slots = book.free_slots(clock_seconds)
        # A hold that took this long to write is of little use.
        is_fresh = clock_seconds < hold.at + self.quota.valid_seconds / 4
        room = book.room(clock_seconds)
        fits = hold.id in book.holds and is_fresh and room >= 0 and (slots is None or slots >= 0)
        return room if fits else None

    def _queue(self, claim: QuotaClaim, since: float, back: float) -> None:
        entry = QueueEntry(claim.rank, since, claim.asker, claim.requests, back)
        self._add(entry.name)
        self._delete_entries(
            old_entry
            for old_entry in self._book().waiting
            if old_entry.asker == claim.asker and old_entry.name != entry.name
        )

    def _clean(self, claim: QuotaClaim) -> None:
        book = self._book()
        self._delete_entries(entry for entry in book.waiting if entry.asker == claim.asker)
        self._sweep(book, self.now())

    def _delete_entries(self, entries: Iterable[QueueEntry]) -> None:
        for entry in entries:
            self._delete(entry.name)

    def _sweep(self, book: QuotaBook, clock_seconds: float) -> None:
        for name in book.expired_names(clock_seconds):
            self._delete(name)

    def _add(self, name: str) -> None:
        self.store.add(prefix_of(self.quota) + name)

    def _delete(self, name: str) -> None:
        self.store.delete(prefix_of(self.quota) + name)


_T = TypeVar("_T")


class NoRoomError(QuotaError):
    """The hour's requests are used up by our own count."""


@contextmanager
def reserve_request(
    turns: Turns | None, asker: str, on_trouble: Callable[[str], None], send_times: Sequence[float]
) -> Iterator[None]:
    """Reserve one request for a person, who does not queue, while the block runs.

    :param turns: None counts no request.
    :param on_trouble: called with a text if the store is unreachable, and the request is sent uncounted.
    :param send_times: times of the block's requests.
    :raises NoRoomError: no room.
    """
    grant = without_store_errors(lambda: _reserve_for_person(turns, asker), on_trouble) if turns is not None else None
    try:
        yield
    except QuotaError as error:
        record_refusal(turns, error, on_trouble)
        raise
    finally:
        if turns is not None and grant is not None:
            without_store_errors(lambda: turns.settle(grant, send_times), on_trouble)


def record_refusal(turns: Turns | None, error: QuotaError, on_trouble: Callable[[str], None]) -> None:
    """Record the vendor's count that came with a refusal."""
    usage = error.said
    if turns is not None and usage is not None:
        without_store_errors(lambda: turns.record_vendor_usage(*usage), on_trouble)


def without_store_errors(step: Callable[[], _T], on_trouble: Callable[[str], None]) -> _T | None:
    """Run a step that uses the store, None if unreachable."""
    try:
        return step()
    except NoRoomError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever trouble Airflow's store is in
        on_trouble(f"the count of requests is unreachable ({type(error).__name__})")
        return None


def _reserve_for_person(turns: Turns, asker: str) -> Grant:
    claim = QuotaClaim(asker=f"{asker}-{secrets.token_hex(4)}", requests=1)
    grant = turns.reserve(claim) if turns.has_room(claim) else None
    if isinstance(grant, Grant):
        return grant
    raise NoRoomError(
        f"{turns.quota.describe()} of {turns.quota.name} are used up or reserved, by the count of this Airflow's "
        "tasks. No request was sent"
    )
