"""A topic's erase list in the ledger: one record for the topic, and those that earlier versions wrote for streams.

An earlier version of this package wrote a list for each stream, with a version of its own. They all are the topic's:
the topic's own record takes them up with the next erase, and until then they are read beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_connect.sinks._kafka.ledger.records import LedgerKey, erase_list_key, parsed
from airflow_provider_connect.stage.erasing import EraseList

if TYPE_CHECKING:
    from airflow_provider_connect.sinks._kafka.ledger.view import View


def list_keys(view: View, topic: str) -> list[bytes]:
    """Return the keys of the records that a topic's list is made of, as far as the ledger was read."""
    return sorted(raw for raw in view.keys("erased") if LedgerKey.parse(raw).topic == topic)


def known_list(view: View, topic: str) -> EraseList:
    """Return a topic's list, as far as the ledger was read. Its version grows with every record that is longer.

    :raises ConfigError: a record cannot be read.
    """
    own = erase_list_key(topic).encoded()
    lists = {raw: parsed(EraseList, value, view.topic) for raw in list_keys(view, topic) if (value := view.value(raw))}
    listed = lists.pop(own, EraseList())
    known = {part.salt: part.version for part in listed.parts}
    later = [other for other in lists.values() if other.version > known.get(other.salt, 0)]
    version = listed.version + sum(other.version - known.get(other.salt, 0) for other in later)
    return EraseList.joined([*later, listed], version)
