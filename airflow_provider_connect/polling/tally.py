"""What is counted while a partition is polled, so that nothing is dropped without a trace."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field

from airflow_provider_connect.stage.rejects import Reject


@dataclass
class Tally:
    """Running counts of one attempt at one partition; read by the progress thread while it grows.

    :param rows: rows read, before duplicates are dropped.
    :param counts: other counts by name: ``duplicates``, ``rejected``, …; a source documents its own.
    :param requests: what was sent to the other side, answered or not: see ``retry_budget_requests``. A connection
        that could not be made is none.
    :param wire_bytes: bytes as they came over the network.
    :param raw_bytes: bytes after decoding.
    :param digest: sum of the 128-bit keys of the kept rows, modulo 2**128: equal rows in any order give
        equal digests.
    """

    rows: int = 0
    requests: int = 0
    wire_bytes: int = 0
    raw_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None
    digest: int = 0
    rejects: list[Reject] = field(default_factory=list)

    def seen(self, earliest: dt.datetime, latest: dt.datetime) -> None:
        """Widen the span of event times by those of a batch (UTC)."""
        self.earliest = min(self.earliest or earliest, earliest)
        self.latest = max(self.latest or latest, latest)

    def request(self) -> None:
        """Count a request that was sent."""
        self.requests += 1

    def reject(self, reject: Reject) -> None:
        """Keep a reject and count it."""
        self.rejects.append(reject)
        self.counts["rejected"] += 1
