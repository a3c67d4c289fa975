"""Erases people from a compacted topic with keys that identify them.

The topic is read once, and memory holds an entry for each key. Kafka removes the covered records at compaction.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_connect.clients.kafka.errors import FencedError
from airflow_provider_connect.clients.kafka.outbox import Headers
from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.clients.kafka.transaction import Transaction, UndecidedError, transactional_id
from airflow_provider_connect.errors import ConfigError, refuse_text
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.ledger.records import NO_DAY, erase_list_key
from airflow_provider_connect.sinks._kafka.turn import PassedOverError
from airflow_provider_connect.stage.erase_list import EraseList, Erasure, ShapingDigest, erase_run, no_shaping

_TRIES = 5
_PAUSES = doubling_pauses(0.5, 8.0)
_MAX_LIST_BYTES = 900_000
"""Limit of the erase list's record, below the default of ``message.max.bytes``."""

_KeyPartition = tuple[bytes, int]


@dataclass(frozen=True)
class KafkaEraser:
    """Eraser of people's records, by the column of the record keys."""

    cluster: Cluster
    column: str

    def find(self, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the people's keys with a value in the topic, by the day that wrote it.

        :raises ConfigError: unsuitable keys, or no turns.
        """
        self._require_erasable()
        return _count_by_day(
            self._find_live_keys(values, self.cluster.end_offsets([self.topic], committed=True)[self.topic])
        )

    def erase(self, values: Sequence[str], shaping: ShapingDigest = no_shaping) -> Erasure:
        """Add people to the erase list and write their tombstones. Safe to repeat.

        :raises ConfigError: as for :meth:`find`, or the list is too long.
        :raises RetriableError: no turn in time.
        """
        self._require_erasable()
        rows: dict[dt.date, int] = {}
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            try:
                erase_list = self._erase_once(values, rows, shaping)
                return Erasure(self.cluster.options.target, self.column, len(set(values)), rows, erase_list.version)
            except (UndecidedError, PassedOverError, FencedError):
                # The next attempt reads the outcome, or queues again. All erases of a topic share one transactional id,
                # so concurrent ones fence each other.
                if not patience.wait_and_retry():
                    raise

    @property
    def topic(self) -> str:
        return self.cluster.options.topic

    def _require_erasable(self) -> None:
        options, problems = self.cluster.options, []
        if options.route_column is not None:
            problems.append("it is a template of several topics")
        if options.key_fields != (self.column,) or options.key_converter != "string":
            problems.append(
                f"the records' keys are not the texts of {self.column!r} alone (key_fields=({self.column!r},), "
                "key_converter='string'), so no tombstone could name a person's records"
            )
        if not options.takes_turns:
            problems.append("without turns a concurrent publish could bring the rows back")
        if not options.headers:
            problems.append("without headers the records do not say which stream wrote them")
        if not problems and not self.cluster.topics().limits(self.topic).is_compacted:
            problems.append("it is not compacted, so tombstones would delete nothing")
        if problems:
            raise ConfigError(
                f"nothing can be erased from topic {self.topic!r}: {'; '.join(problems)}. See 'Deleting people' in "
                "'airflow connect docs kafka --page' for alternatives"
            )

    def _erase_once(self, values: Sequence[str], rows: dict[dt.date, int], shaping: ShapingDigest) -> EraseList:
        cluster = self.cluster
        names = (cluster.key.connector, cluster.key.stream, self.topic, "erase")
        description = f"an erase of {cluster.key} from {self.topic!r}"
        cluster.ledger.erased()  # reads the ledger to its end, where the queue continues
        with cluster.turn(
            cluster.ledger.view, transactional_id(*names), [self.topic], description, uuid.uuid4().hex
        ) as turn:
            turn.wait_for_same_day()
            transaction = cluster.transaction(turn.id, description=description)
            try:
                with transaction:
                    turn.close_fenced_tickets()
                    turn.wait_for_turn()
                    current_list = cluster.ledger.erased()
                    new_list = current_list.with_values(self.column, values, shaping)
                    live_keys = self._find_live_keys(values, cluster.end_offsets([self.topic])[self.topic])
                    if new_list is not current_list or live_keys:
                        # Now, because after a lost response the next attempt finds no live keys.
                        rows.update(_count_by_day(live_keys))
                        self._write(transaction, new_list, live_keys)
            finally:
                turn.leave_queue(transaction_is_over=transaction.is_over)
        return new_list

    def _write(self, transaction: Transaction, erase_list: EraseList, live_keys: dict[_KeyPartition, dt.date]) -> None:
        key, options = self.cluster.key, self.cluster.options
        text = erase_list.model_dump_json(exclude_defaults=True).encode()
        if len(text) > _MAX_LIST_BYTES:
            raise ConfigError(
                f"the erase list of {self.topic!r} would have {len(erase_list.digests):,} entries in {len(text):,} "
                "bytes, "
                f"and a record of the ledger may have {_MAX_LIST_BYTES:,}. Delete these people in the source, "
                "and load the days again into a new topic"
            )
        constant: Headers = [
            ("connect.connector", key.connector.encode()),
            ("connect.stream", key.stream.encode()),
            ("connect.run", erase_run(erase_list.version).encode()),
        ]
        transaction.begin()
        # Earlier versions read only the stream's record. They cannot parse this one and stop.
        for list_key in (erase_list_key(self.topic), self.cluster.ledger.key_for(NO_DAY, "erased")):
            transaction.send(options.ledger_topic, list_key.encode(), text, [])
        for record_key, partition in live_keys:
            transaction.send(self.topic, record_key, None, constant, partition)
        transaction.flush()
        transaction.commit()

    def _find_live_keys(self, values: Sequence[str], ends: dict[int, int]) -> dict[_KeyPartition, dt.date]:
        refuse_text("values", values)
        keys = {value.encode("utf-8", "surrogatepass") for value in values}
        live_keys: dict[_KeyPartition, dt.date] = {}
        with open_topic(self.cluster.connection, self.topic, self.cluster.options.timeout_seconds) as reader:
            for messages in reader.read_batches(dict.fromkeys(ends, 0), ends):
                for message in messages:
                    record_key = message.key()
                    if not isinstance(record_key, bytes) or record_key not in keys:
                        continue
                    headers, key_partition = dict(message.headers() or []), (record_key, message.partition() or 0)
                    if "connect.stream" not in headers:  # not a sink's
                        continue
                    day = headers["connect.day"] if message.value() is not None else None
                    if isinstance(day, bytes):
                        live_keys[key_partition] = dt.date.fromisoformat(day.decode())
                    else:
                        live_keys.pop(key_partition, None)
        return live_keys


def _count_by_day(live_keys: dict[_KeyPartition, dt.date]) -> dict[dt.date, int]:
    return dict(sorted(Counter(live_keys.values()).items()))
