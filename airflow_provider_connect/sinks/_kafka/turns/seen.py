"""Whether readers of committed records see what was published, and a warning if they do not.

A broker answers a commit when it has decided, and writes the ends of the transaction into its partitions afterwards.
Mostly that takes milliseconds. Apache Kafka 4.3.1 forgets a partition that has no leader at that moment
(https://github.com/apache/kafka/pull/22680, KAFKA-20734, 2026-11): no timeout ends the transaction there, and readers
stop at it for ever. Nobody but its producer knows that the day is decided, so it is the one to say so.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConnectError
from airflow_provider_connect.patience import Patience

if TYPE_CHECKING:
    from airflow_provider_connect.clients.kafka.offsets import Ends
    from airflow_provider_connect.sinks._kafka.cluster import Cluster
    from airflow_provider_connect.sinks._kafka.ledger.records import Entry

_LOG = logging.getLogger("airflow_provider_connect.sinks.kafka")
SEEN_SECONDS = 10.0
"""What the ends of a transaction may take until they are missed."""
_LOOK_SECONDS = 0.05
_MOST_SHOWN = 10


def tell_if_hidden(cluster: Cluster, entry: Entry, transactional_id: str, where: str) -> None:
    """Wait until readers of committed records can pass a day that is committed; warn if they cannot for long.

    The day is published in any case, so an error would not help: its retry would find it in the ledger.

    :param where: connector, stream and day, for the message.
    """
    started = time.monotonic()
    try:
        hidden = _hidden(cluster, entry)
    except ConnectError as error:  # as of a partition that still has no leader
        hidden = [str(error)]
    if hidden:
        shown = ", ".join(hidden[:_MOST_SHOWN]) + (", …" if len(hidden) > _MOST_SHOWN else "")
        _LOG.warning(
            "%s is published as generation %d, but readers of committed records have not got past it for %.0f s: %s. "
            "If no other program has a transaction open there, the broker has lost the end of transaction %r: "
            "see 'Readers that stop' in docs/kafka_errors.md",
            where,
            entry.row.generation,
            time.monotonic() - started,
            shown,
            transactional_id,
        )


def _hidden(cluster: Cluster, entry: Entry) -> list[str]:
    """Return where readers still stop when the time is up; nothing as soon as they do not."""
    ledger = cluster.options.ledger_topic
    wanted: Ends = {topic: {part: span[1] for part, span in spans.items()} for topic, spans in entry.offsets.items()}
    wanted |= cluster.ends([ledger])
    patience = Patience(SEEN_SECONDS, (_LOOK_SECONDS,))
    while True:
        found = cluster.ends(wanted, committed=True)
        hidden = [
            f"{topic!r} partition {partition} at offset {found[topic][partition]} of {end}"
            for topic, partitions in wanted.items()
            for partition, end in partitions.items()
            if found[topic].get(partition, end) < end
        ]
        if not hidden or not patience.look_again():
            return hidden
