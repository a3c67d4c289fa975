"""Dead letters: rows that cannot become records, in a separate topic with Kafka Connect's headers.

Header names: https://kafka.apache.org/documentation/#connect_errorreporting (2026-11).
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_connect.clients.kafka.outbox import Headers, Outbox
from airflow_provider_connect.clients.kafka.topic_reader import open_topic
from airflow_provider_connect.sinks._kafka.cluster import Cluster
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, RejectedRow
from airflow_provider_connect.stage.rejects import DayRejects, RejectedRecord, read_rejects
from airflow_provider_connect.stage.rows import POSITION_BITS, partition_and_row

if TYPE_CHECKING:
    from confluent_kafka import Message

_SINK_CLASS = "airflow_provider_connect.sinks.kafka.KafkaSink"
_BATCH_BYTES = 1_000_000
_HEADERS_BYTES = 4096
_PREFIX, _CUT_HEADER = "__connect.errors.", "connect.cut_from_bytes"
_SOURCE_STAGE = "TASK_POLL"


class DeadLetter(NamedTuple):
    """Key, value and headers of a dead letter."""

    key: bytes | None
    value: bytes
    headers: Headers


class DeadLetterSender:
    """Sender of a publish's dead letters, if it has a topic."""

    def __init__(self, plan: DayPlan, outbox: Outbox, topic: str) -> None:
        self.plan = plan
        self.outbox = outbox
        self.topic = topic

    def send_refused(self, refused: Iterable[RejectedRow]) -> None:
        self._send(self.make_refused_letters(refused))

    def send_source_rejects(self) -> int:
        """Send records that the source rejected. Returns their number."""
        return self._send(self.make_source_letters())

    def make_refused_letters(self, refused: Iterable[RejectedRow]) -> Iterator[DeadLetter]:
        """Yield letters for rows that the sink rejected, as JSON."""
        for row in refused:
            part, number = partition_and_row(row.position)
            reason = f"column {row.column!r}: {row.reason}" if row.column else row.reason
            yield DeadLetter(
                row.key, row.make_json(), self._make_headers(row.topic, part, number, row.stage, reason, _SINK_CLASS)
            )

    def make_source_letters(self) -> Iterator[DeadLetter]:
        publish = self.plan.publish
        origin = publish.key.connector
        for part, file in enumerate(publish.manifest.polled.rejects):
            for rejects in read_rejects(publish.stage, file, _BATCH_BYTES):
                for reject in rejects:
                    headers = self._make_headers(
                        self.topic, part, reject.position, _SOURCE_STAGE, reject.reason, origin
                    )
                    yield DeadLetter(None, reject.record, headers)

    def _send(self, letters: Iterable[DeadLetter]) -> int:
        topic, count = self.plan.dead_letter_topic, 0
        if topic is None:
            return 0
        max_bytes = self.plan.limits[topic].max_message_bytes - _HEADERS_BYTES
        for letter in letters:
            key, value, headers = letter
            if len(value) + len(key or b"") > max_bytes:
                key = key if len(key or b"") <= max_bytes // 2 else None
                value = value[: max(0, max_bytes - len(key or b""))]
                headers = [*headers, (_CUT_HEADER, str(len(letter.value)).encode())]
            self.outbox.send(topic, key, value, headers)
            count += 1
        return count

    def _make_headers(  # noqa: PLR0917  # as many as Connect's headers take
        self, topic: str, part: int, offset: int, stage: str, reason: str, class_name: str
    ) -> Headers:
        publish = self.plan.publish
        texts = {
            "topic": topic,
            "partition": part,
            "offset": offset,
            "connector.name": str(publish.key),
            "task.id": publish.manifest.attempt,
            "stage": stage,
            "class.name": class_name,
            "exception.class.name": "airflow_provider_connect.errors.DataError",
            "exception.message": reason,
        }
        headers: Headers = [(f"{_PREFIX}{name}", str(text).encode()) for name, text in texts.items()]
        return [*headers, ("connect.day", str(publish.day).encode())]


def read_dead_letters(cluster: Cluster, first: dt.date, last: dt.date, max_records: int) -> Iterator[DayRejects]:
    """Yield each published day's rejects, from the dead letter topic's beginning.

    :param max_records: most records of a day in memory.
    """
    topic = cluster.options.effective_dead_letter_topic
    rows_by_attempt = {
        row.attempt: row
        for rows in cluster.ledger.span_rows(first, last)
        for row in rows
        if row.attempt is not None and row.counts.get("rejected")
    }
    letters_by_attempt: dict[str, dict[tuple[str, ...], RejectedRecord]] = {attempt: {} for attempt in rows_by_attempt}
    for headers, message in _read_letters(cluster, topic) if rows_by_attempt else ():
        letters = letters_by_attempt.get(headers.get("task.id", ""))
        if letters is not None and headers.get("connector.name") == str(cluster.key):
            # A retry without a transaction sends the same letters again.
            position = tuple(headers.get(name, "") for name in ("stage", "topic", "partition", "offset"))
            letters.setdefault(position, _to_set_aside(headers, message, with_record=len(letters) < max_records))
    for attempt, row in sorted(rows_by_attempt.items(), key=lambda item: item[1].day):
        location = f"topic {topic!r}"
        yield DayRejects(
            row.day, row.generation, row.counts["rejected"], location, letters_by_attempt[attempt].values()
        )


def _read_letters(cluster: Cluster, topic: str) -> Iterator[tuple[dict[str, str], Message]]:
    with open_topic(cluster.connection, topic, cluster.options.timeout_seconds) as reader:
        for messages in reader.read_all():
            for message in messages:
                headers = {
                    name.removeprefix(_PREFIX): value.decode(errors="replace")
                    for name, value in dict(message.headers() or {}).items()
                    if isinstance(value, bytes)
                }
                yield headers, message


def _to_set_aside(headers: dict[str, str], message: Message, *, with_record: bool) -> RejectedRecord:
    value, is_source = message.value(), headers.get("stage") == _SOURCE_STAGE
    record = value if isinstance(value, bytes) and value else None
    is_cut = _CUT_HEADER in headers
    part, offset = (int(headers.get(name, "0")) for name in ("partition", "offset"))
    reason = headers.get("exception.message", "")
    return RejectedRecord(
        origin="source" if is_source else "sink",
        position=offset if is_source else (part << POSITION_BITS) + offset,
        reason=f"{reason} (record cut from {headers[_CUT_HEADER]} bytes)" if is_cut else reason,
        digest=None if record is None or is_cut else hashlib.blake2b(record, digest_size=16).hexdigest(),
        record=record if with_record else None,
    )
