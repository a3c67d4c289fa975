"""State of a quota, read from the keys in a store.

Times are seconds since 1970, with milliseconds, by the writer's clock::

    connect_quota/<quota>/hold/<id>/<written at>/<requests>/<at once>     a reservation
    connect_quota/<quota>/sent/<id>/<requests>@<when>+<requests>@<when>   its sent requests, once the job has ended
    connect_quota/<quota>/wait/<rank>/<since>/<asker>/<requests>/<back>   a waiting task, which looks again at <back>
    connect_quota/<quota>/said/<when>/<used>/<limit>/<seconds to wait>    the vendor's own count

A hold (reservation) counts in full until its sent requests replace it, or until its validity ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from airflow_provider_connect.polling.quota.limits import Quota, QuotaClaim

PREFIX = "connect_quota/"
_MOST_SPANS = 8


def prefix_of(quota: Quota) -> str:
    """Return the prefix of a quota's keys."""
    return f"{PREFIX}{quota.name}/"


@dataclass(frozen=True)
class Hold:
    """A task's reservation of ``requests``, of which ``width`` may run concurrently. Written at ``at``."""

    id: str
    at: float
    requests: int
    width: int

    @property
    def name(self) -> str:
        """Key without the prefix."""
        return f"hold/{self.id}/{self.at:.3f}/{self.requests}/{self.width}"


@dataclass(frozen=True)
class SentRequests:
    """Requests sent under a reservation, in groups: ``spans`` holds (number, latest send time) of each."""

    id: str
    spans: tuple[tuple[int, float], ...]

    @classmethod
    def from_times(cls, id_: str, send_times: Iterable[float], quota: Quota) -> SentRequests:
        """Group requests by send time. A group counts as sent at its latest time."""
        spans: list[tuple[int, float]] = []
        width = max(quota.seconds / 60, quota.valid_seconds / _MOST_SPANS)
        first = -math.inf
        for time in sorted(send_times):
            if time - first < width:
                spans[-1] = (spans[-1][0] + 1, time)
            else:
                spans.append((1, time))
                first = time
        while len(spans) > _MOST_SPANS:
            spans[:2] = [(spans[0][0] + spans[1][0], spans[1][1])]
        return cls(id_, tuple(spans))

    @property
    def name(self) -> str:
        """Key without the prefix."""
        return f"sent/{self.id}/" + "+".join(f"{count}@{time:.3f}" for count, time in self.spans)


@dataclass(frozen=True)
class QueueEntry:
    """A waiting task, which looks again at the time ``back``."""

    rank: int
    since: float
    asker: str
    requests: int
    back: float

    @property
    def queue_position(self) -> tuple[int, float, str]:
        """Sort key of the queue: today's runs first, then by time."""
        return self.rank, self.since, self.asker

    @property
    def name(self) -> str:
        """Key without the prefix."""
        return f"wait/{self.rank}/{self.since:.3f}/{self.asker}/{self.requests}/{self.back:.3f}"


@dataclass(frozen=True)
class VendorUsage:
    """The vendor's own count for the last hour, sent with a refusal.

    :param wait_seconds: requested pause. 0 without one.
    """

    at: float
    used: int
    limit: int
    wait_seconds: float = 0.0

    @property
    def name(self) -> str:
        """Key without the prefix."""
        return f"said/{self.at:.3f}/{self.used}/{self.limit}/{self.wait_seconds:.3f}"


@dataclass
class QuotaBook:
    """State of a quota at one listing of its keys. Keys of another form are ignored."""

    quota: Quota
    holds: dict[str, Hold] = field(default_factory=dict)
    sent: dict[str, SentRequests] = field(default_factory=dict)
    waiting: list[QueueEntry] = field(default_factory=list)
    said: list[VendorUsage] = field(default_factory=list)

    @classmethod
    def read(cls, quota: Quota, keys: Iterable[str]) -> QuotaBook:
        """Parse the keys of a quota."""
        book = cls(quota)
        for key in keys:
            kind, *fields = key.removeprefix(prefix_of(quota)).split("/")
            try:
                book._add_key(kind, fields)
            except ValueError:
                continue
        return book

    def _add_key(self, kind: str, fields: Sequence[str]) -> None:
        if kind == "hold":
            id_, at, requests, width = fields
            self.holds[id_] = Hold(id_, float(at), int(requests), int(width))
        elif kind == "sent":
            id_, spans = fields
            pairs = [span.split("@") for span in spans.split("+")]
            self.sent[id_] = SentRequests(id_, tuple((int(count), float(time)) for count, time in pairs))
        elif kind == "wait":
            rank, since, asker, requests_text, back = fields
            self.waiting.append(QueueEntry(int(rank), float(since), asker, int(requests_text), float(back)))
        elif kind == "said":
            at, used, limit, wait = fields
            self.said.append(VendorUsage(float(at), int(used), int(limit), float(wait)))

    # Usage

    def _counted_requests(self) -> Iterator[tuple[int, float, float]]:
        for hold in self.holds.values():
            if hold.id not in self.sent:
                yield hold.requests, hold.at, hold.at + self.quota.valid_seconds
        for sent_requests in self.sent.values():
            yield from ((count, time, time) for count, time in sent_requests.spans)

    def _releases(self) -> list[tuple[float, int]]:
        counted_seconds = self.quota.seconds + self.quota.slack_seconds
        return sorted((latest + counted_seconds, count) for count, _, latest in self._counted_requests())

    def used_requests(self, clock_seconds: float) -> int:
        """Return how many requests of our tasks count at this time."""
        return sum(count for end, count in self._releases() if end > clock_seconds)

    @property
    def latest_vendor_usage(self) -> VendorUsage | None:
        """The vendor's most recent count."""
        return max(self.said, key=lambda usage: usage.at, default=None)

    def requests_by_others(self, clock_seconds: float) -> int:
        """Estimate how many requests of the account's other users count, from the vendor's count."""
        usage = self.latest_vendor_usage
        if usage is None or clock_seconds >= usage.at + self.quota.seconds:
            return 0
        began, slack = usage.at - self.quota.seconds, self.quota.slack_seconds
        ours = sum(n for n, first, last in self._counted_requests() if first <= usage.at + slack and last > began)
        share_left = min(1.0, 1 - (clock_seconds - usage.at) / self.quota.seconds)
        return math.ceil(max(0, usage.used - ours) * share_left)

    def limit(self, clock_seconds: float) -> int:
        """Return the allowed requests an hour: our setting, or the vendor's latest limit if lower."""
        usage = self.latest_vendor_usage
        is_known = usage is not None and clock_seconds < usage.at + self.quota.seconds
        return min(self.quota.requests, usage.limit) if usage is not None and is_known else self.quota.requests

    def room(self, clock_seconds: float) -> int:
        """Return how many more requests may be sent. Negative if too many are sent or reserved."""
        usage = self.latest_vendor_usage
        if usage is not None and usage.at <= clock_seconds < usage.at + usage.wait_seconds:
            return 0
        return self.limit(clock_seconds) - self.used_requests(clock_seconds) - self.requests_by_others(clock_seconds)

    def free_slots(self, clock_seconds: float) -> int | None:
        """Return how many more requests may run concurrently. None without a limit."""
        if self.quota.at_once is None:
            return None
        ends = self.quota.valid_seconds + self.quota.slack_seconds
        open_holds = (
            hold for hold in self.holds.values() if hold.id not in self.sent and hold.at + ends > clock_seconds
        )
        return self.quota.at_once - sum(hold.width for hold in open_holds)

    # Queue

    def queue_entry_of(self, claim: QuotaClaim) -> QueueEntry | None:
        """Return a task's queue entry, the oldest of several."""
        own_entries = [waiting for waiting in self.waiting if waiting.asker == claim.asker]
        return min(own_entries, key=lambda waiting: (waiting.since, -waiting.back), default=None)

    def requests_ahead(self, claim: QuotaClaim, since: float, clock_seconds: float) -> int:
        """Return how many requests the tasks ahead in the queue claim."""
        own_position = (claim.rank, since, claim.asker)
        alive_claims = {
            waiting.asker: waiting.requests
            for waiting in self.waiting
            if waiting.queue_position < own_position
            and waiting.asker != claim.asker
            and waiting.back + self.quota.grace_seconds > clock_seconds
        }
        return sum(alive_claims.values())

    def offer(self, claim: QuotaClaim, since: float, clock_seconds: float) -> tuple[int, int]:
        """Return how many requests a task may take now, and how many concurrently. (0, 0) if it has to wait."""
        slots = self.free_slots(clock_seconds)
        width = claim.width if slots is None else min(claim.width, slots)
        free = self.room(clock_seconds) - self.requests_ahead(claim, since, clock_seconds)
        if width < 1 or free < self._least_requests(claim, clock_seconds):
            return 0, 0
        granted = min(claim.requests, free)
        return granted + min(claim.spare, (free - granted) // 10), width

    def _least_requests(self, claim: QuotaClaim, clock_seconds: float) -> int:
        return max(1, min(claim.least, claim.requests, self.limit(clock_seconds)))

    def next_attempt_time(self, claim: QuotaClaim, since: float, clock_seconds: float) -> float:
        """Return when a waiting task may find room, if no task returns requests early."""
        needed = self.requests_ahead(claim, since, clock_seconds) + self._least_requests(claim, clock_seconds)
        latest = clock_seconds + self.quota.seconds / 12
        usage = self.latest_vendor_usage
        times = [clock_seconds + self.quota.seconds / 3600, *(end for end, _ in self._releases())]
        if usage is not None:
            times.append(usage.at + usage.wait_seconds)
        if self.requests_by_others(clock_seconds):
            times.append(clock_seconds + self.quota.seconds / max(1, self.quota.requests))
        fits = (time for time in sorted(times) if time > clock_seconds and self.room(time) >= needed)
        return min(next(fits, latest), latest)

    # Expiry

    def expired_names(self, clock_seconds: float) -> list[str]:
        """Return expired keys, without the prefix."""
        margin = self.quota.seconds / 10
        counted_seconds = self.quota.seconds + self.quota.slack_seconds + margin
        lasting = self.quota.valid_seconds + counted_seconds
        names = [hold.name for hold in self.holds.values() if clock_seconds > hold.at + lasting]
        names += [
            sent_requests.name
            for sent_requests in self.sent.values()
            if clock_seconds > max(time for _, time in sent_requests.spans) + counted_seconds
        ]
        names += [waiting.name for waiting in self.waiting if clock_seconds > waiting.back + self.quota.seconds]
        return names + [usage.name for usage in self.said if clock_seconds > usage.at + counted_seconds]
