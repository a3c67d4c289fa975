"""Dead letters: what could not become a record, in a topic of its own with Connect's headers, in the day's transaction.

Header names: https://kafka.apache.org/documentation/#connect_errorreporting (2026-11). Where Connect names the place in
the consumed topic, a batch source has the row's place in the staged day.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from airflow_provider_connect.clients.kafka.outbox import Headers, Outbox, headers_bytes
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.sinks._kafka.records import Refused
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


def of_rows(refused: Iterable[Refused], publish: Publish) -> Iterator[Letter]:
    """Make the dead letters of rows that the sink refused; the value is the row as JSON."""
    for row in refused:
        part, number = place_of(row.position)
        reason = f"column {row.column!r}: {row.reason}" if row.column else row.reason
        yield Letter(row.key, row.record(), _headers(publish, row.topic, part, number, row.stage, reason, _SINK_CLASS))


def of_source(publish: Publish, topic: str) -> Iterator[Letter]:
    """Make the dead letters of what the source set aside; the value is what it sent, its place a byte of the answer.

    :param topic: where the records would have gone.
    """
    origin = publish.key.connector
    for part, file in enumerate(publish.manifest.polled.rejects):
        for rejects in read_rejects(publish.stage, file, _BATCH_BYTES):
            for reject in rejects:
                headers = _headers(publish, topic, part, reject.position, "TASK_POLL", reject.reason, origin)
                yield Letter(None, reject.record, headers)


def send(outbox: Outbox, topic: str, letters: Iterable[Letter], max_message_bytes: int) -> int:
    """Send dead letters; return how many. One that is too large even for their topic is cut, and says so."""
    sent = 0
    room = max_message_bytes - _HEADERS_BYTES
    for letter in letters:
        key, value, headers = letter
        if len(value) + len(key or b"") > room:
            key = key if len(key or b"") <= room // 2 else None
            value = value[: max(0, room - len(key or b""))]
            headers = [*headers, ("connect.cut_from_bytes", str(len(letter.value)).encode())]
        outbox.make_room(1, len(key or b"") + len(value) + headers_bytes(headers))
        outbox.send(topic, key, value, headers)
        sent += 1
    return sent


def _headers(  # noqa: PLR0917  # as many as Connect's headers take
    publish: Publish, topic: str, part: int, offset: int, stage: str, reason: str, class_name: str
) -> Headers:
    told = {
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
    headers: Headers = [(f"__connect.errors.{name}", str(value).encode()) for name, value in told.items()]
    return [*headers, ("connect.day", str(publish.day).encode())]
