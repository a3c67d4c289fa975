"""Made-up events: the same for the same seed and day."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_TYPES = ("charge.succeeded", "charge.failed", "customer.created", "invoice.paid", "payout.paid")
_SECONDS = 86_400


@dataclass(frozen=True)
class Ledger:
    """The account's events."""

    seed: int = 0
    events_per_day: int = 2000

    def events_of_day(self, date: dt.date) -> list[dict[str, Any]]:
        """Return a UTC day's events, newest first, as Stripe lists them."""
        return _make_events(self, date)

    def expected_rows(self, date: dt.date) -> Iterator[dict[str, Any]]:
        """Yield the expected rows of a day."""
        for event in self.events_of_day(date):
            yield {"event": event["type"], "properties": event}


def as_text(document: Any) -> str:
    """Return JSON as the stand-in sends it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=32)
def _make_events(ledger: Ledger, date: dt.date) -> list[dict[str, Any]]:
    chance = random.Random(f"{ledger.seed} {date}")  # made-up data
    midnight = int(dt.datetime.combine(date, dt.time(), dt.UTC).timestamp())
    seconds = sorted((chance.randrange(_SECONDS) for _ in range(ledger.events_per_day)), reverse=True)
    return [_event(chance, f"{date:%Y%m%d}{index:06d}", midnight + second) for index, second in enumerate(seconds)]


def _event(chance: random.Random, name: str, created: int) -> dict[str, Any]:
    kind = chance.choice(_TYPES)
    object_type = kind.partition(".")[0]
    return {
        "id": f"evt_{name}",
        "object": "event",
        "api_version": "2026-10-29",
        "created": created,
        "data": {
            "object": {
                "id": f"{object_type[:2]}_{chance.randrange(10**9):09d}",
                "object": object_type,
                "amount": chance.randrange(100, 100_000),
                "currency": chance.choice(("eur", "usd", "jpy")),
                "description": chance.choice(("Café crème", "Bücher", "Flight LIS to TXL", None)),
            }
        },
        "livemode": False,
        "pending_webhooks": 0,
        "request": {"id": f"req_{name}" if chance.random() < 0.7 else None, "idempotency_key": None},
        "type": kind,
    }
