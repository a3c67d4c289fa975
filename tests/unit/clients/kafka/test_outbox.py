"""What a producer holds where no broker takes anything: bounded, and never an error of Python's own."""

from __future__ import annotations

import time
from typing import Any

import pytest

from airflow_provider_connect.clients.kafka import outbox as _kafka_outbox
from airflow_provider_connect.clients.kafka.outbox import AcknowledgedOutbox, Outbox
from airflow_provider_connect.clients.kafka.transaction import Transaction
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError

NOWHERE = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
CHUNK = 1000


def outbox(**settings: Any) -> Outbox:
    return Outbox(NOWHERE, 0.3, {name.replace("__", "."): value for name, value in settings.items()})


def test_small_records_are_bounded_by_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_outbox, "QUEUE_RECORDS", 3 * CHUNK, raising=False)
    full = outbox()
    for _ in range(3):
        full.send_batch("t", [{"key": b"k", "value": b"v"} for _ in range(CHUNK)], 2 * CHUNK)
    with pytest.raises(RetriableError, match="the broker took none of 3,000 records"):
        full.send_batch("t", [{"key": b"k", "value": b"v"}], 2)
    assert full.accepted_records == 3 * CHUNK


def test_large_records_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_outbox, "QUEUE_KBYTES", 10)
    full = outbox()
    for size_bytes in (1, 1, 1, 5000, 5000):  # small ones before them say nothing of their size
        full.send_batch("t", [{"key": None, "value": b"v" * size_bytes}], size_bytes)
    with pytest.raises(RetriableError, match="the broker took none of 5 records"):
        full.send_batch("t", [{"key": None, "value": b"v" * 5000}], 5000)


def test_a_client_that_has_no_room_is_waited_for() -> None:
    full = outbox(queue__buffering__max__messages=10)
    with pytest.raises(RetriableError, match="the broker took none of 10 records"):
        full.send_with_headers("t", [b"k"] * 20, [b"v"] * 20, [[("h", b"1")]] * 20, [0] * 20, [-1] * 20, 40)
    with pytest.raises(RetriableError, match="the broker took none of 10 records"):
        full.send("t", b"k", b"v", [])
    with pytest.raises(RetriableError, match="the broker took none of 10 records"):
        full.send_batch("t", [{"key": b"k", "value": b"v"}], 2)


def test_an_unacknowledged_record_does_not_count_as_sent() -> None:
    silent = AcknowledgedOutbox(NOWHERE, 0.3, {})
    silent.accepted_records = 3  # the client's queue is empty, and it has told of none of them
    with pytest.raises(RetriableError, match="0 of 3 records were acknowledged"):
        silent.flush()


def test_a_transaction_that_is_not_begun_is_open_for_no_time() -> None:
    assert Transaction(NOWHERE, "id", 1.0, 60.0).open_seconds == 0.0


def test_a_transaction_that_runs_out_of_time_is_retriable() -> None:
    slow = Transaction(NOWHERE, "id", 1.0, 60.0, description="c/s 2026-10-05 into 'events'")
    slow.require_time_left(1, 10)
    slow._begun_at = time.monotonic() - 55
    with pytest.raises(RetriableError, match=r"c/s 2026-10-05 into 'events': 1 of 10 records took 55 s, .* 60 s"):
        slow.require_time_left(1, 10)
