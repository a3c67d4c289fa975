"""Dead letters: rows that could not become records, in a topic of their own, with Connect's headers.

Header names: https://kafka.apache.org/documentation/#connect_errorreporting (2026-11). Where Connect names the place in
the consumed topic, a batch source has the row's place in the staged day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from airflow_provider_connect.clients.kafka.outbox import Headers, Outbox
from airflow_provider_connect.sinks._kafka.records import Plan, Refused
from airflow_provider_connect.stage.rejects import read_rejects
from airflow_provider_connect.stage.rows import place_of

_SINK_CLASS = "airflow_provider_connect.sinks.kafka.KafkaSink"
_BATCH_BYTES = 1_000_000
_HEADERS_BYTES = 4096


class Letter(NamedTuple):
    """One dead letter."""

    key: bytes | None
    value: bytes
    headers: Headers


class DeadLetters:
    """Makes and sends the dead letters of one publish; none where its plan has no topic for them.

    :param topic: the sink's own, as it was given: where the source's rejects would have gone.
    """

    def __init__(self, plan: Plan, outbox: Outbox, topic: str) -> None:
        self.plan = plan
        self.outbox = outbox
        self.topic = topic

    def send_refused(self, refused: Iterable[Refused]) -> None:
        """Send the rows that the sink refused."""
        self._send(self.of_refused(refused))

    def send_source_rejects(self) -> int:
        """Send what the source set aside; return how many."""
        return self._send(self.of_source())

    def of_refused(self, refused: Iterable[Refused]) -> Iterator[Letter]:
        """Make the letters of rows that the sink refused; the value is the row as JSON."""
        for row in refused:
            part, number = place_of(row.position)
            reason = f"column {row.column!r}: {row.reason}" if row.column else row.reason
            yield Letter(row.key, row.record(), self._headers(row.topic, part, number, row.stage, reason, _SINK_CLASS))

    def of_source(self) -> Iterator[Letter]:
        """Make the letters of what the source set aside; the value is what it sent, its place a byte of the answer."""
        publish = self.plan.publish
        origin = publish.key.connector
        for part, file in enumerate(publish.manifest.polled.rejects):
            for rejects in read_rejects(publish.stage, file, _BATCH_BYTES):
                for reject in rejects:
                    headers = self._headers(self.topic, part, reject.position, "TASK_POLL", reject.reason, origin)
                    yield Letter(None, reject.record, headers)

    def _send(self, letters: Iterable[Letter]) -> int:
        """Send letters; one that is too large even for their topic is cut, and says so."""
        topic, sent = self.plan.dead_letters, 0
        if topic is None:
            return 0
        room = self.plan.limits[topic].max_message_bytes - _HEADERS_BYTES
        for letter in letters:
            key, value, headers = letter
            if len(value) + len(key or b"") > room:
                key = key if len(key or b"") <= room // 2 else None
                value = value[: max(0, room - len(key or b""))]
                headers = [*headers, ("connect.cut_from_bytes", str(len(letter.value)).encode())]
            self.outbox.send(topic, key, value, headers)
            sent += 1
        return sent

    def _headers(  # noqa: PLR0917  # as many as Connect's headers take
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
        headers: Headers = [(f"__connect.errors.{name}", str(text).encode()) for name, text in texts.items()]
        return [*headers, ("connect.day", str(publish.day).encode())]
