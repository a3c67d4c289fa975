"""Turn records: who wants to send into which topics, in the order of the ledger's one partition.

They lie in the ledger's topic, as plain records, and are read whether or not a transaction of others is open. Each
ticket has a number, and two keys: its state (``want``, then maybe ``pass``, then a tombstone: it is over), and under
the next number its sign of life, since compaction would else move the ticket's place.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Literal

from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey
from airflow_provider_connect.wire import Wire


class TicketRecord(Wire):
    """What the state of a ticket says, until it is over.

    :param what: it waits or sends; or it was passed over, and whoever comes next ends its transaction first.
    :param id: the transactional id that it took **before** it queued: who takes it again has fenced it.
    :param topics: it sends into, sorted.
    :param who: for people.
    :param begun: which ``begin`` of which driver it belongs to (:class:`.records.Plan`).
    :param place: of a ticket that was passed over: the offset of its ``want``.
    """

    what: Literal["want", "pass"]
    id: str
    topics: tuple[str, ...]
    who: str
    begun: str
    place: int | None = None


def new_number() -> int:
    """Return the number of a new ticket: even, and nobody else's."""
    return (uuid.uuid4().int >> 66) << 1


def state_key(topic: str, number: int) -> bytes:
    """Return the key of a ticket's state.

    :param topic: for people: the sink's.
    """
    return LedgerKey("", "", topic, dt.date.min, "claim", number).encoded()


def beat_key(topic: str, number: int) -> bytes:
    """Return the key of a ticket's sign of life."""
    return state_key(topic, number + 1)
