"""How much a share's records count for in the producer's queue."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.kafka import outbox as _kafka_outbox
from airflow_provider_connect.clients.kafka.outbox import Headers, Outbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import DataError, RetriableError
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, OutgoingRecords, RejectedRow
from airflow_provider_connect.sinks._kafka.sender import SentShare, ShareSender
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult, StagedFile
from airflow_provider_connect.window import Day

NOWHERE = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShareSender:
    """A sender to no broker, whose producer holds 1 KB."""
    monkeypatch.setattr(_kafka_outbox, "QUEUE_KBYTES", 1)
    day = Day(date=dt.date(2026, 10, 5))
    publish = Publish(
        key=StreamKey(connector="mixpanel", stream="export"),
        day=day,
        intent=Intent(token="t", run="dag/run/task"),
        manifest=Manifest(day=day, attempt="0a-1-20261005", fingerprint="f", polled=PollResult()),
        schema=pa.schema([pa.field("event", pa.string())]),
        stage=str(tmp_path),
    )
    plan = DayPlan(publish, "rows", {None: "events"}, {}, {}, None)
    return ShareSender(KafkaSink(topic="events", key_fields=("event",)), plan, Outbox(NOWHERE, 0.3, {}), (), 1)


def unasked() -> bytes:
    raise AssertionError("a row is made JSON that nobody wants")


BAD = RejectedRow(5, "events", "VALUE_CONVERTER", "x", "NaN", b"k", unasked)


def outgoing(headers: Headers) -> OutgoingRecords:
    return OutgoingRecords("events", [b"k"], [b"v"], [headers], None)


def test_headers_count_for_what_a_producer_holds(sender: ShareSender) -> None:
    for _ in range(3):
        sender._hand_over(outgoing([("h", b"x")]))
    sender._hand_over(outgoing([("h", b"x" * 600)]))
    with pytest.raises(RetriableError, match="the broker took none of 4 records"):
        sender._hand_over(outgoing([("h", b"x" * 600)]))


def test_headers_of_tombstones_count_as_well(sender: ShareSender) -> None:
    snapshot: Any = SimpleNamespace(require_unique=lambda: None, read_vanished=lambda: iter([(0, b"k", b"v", [])] * 20))
    with pytest.raises(RetriableError, match=r"the broker took none of \d+ records"):
        sender._send_tombstones(snapshot)


def test_nothing_is_tolerated_unless_said_and_a_row_that_is_not_is_never_made_json(sender: ShareSender) -> None:
    with pytest.raises(
        DataError, match=r"2 rows cannot become records of topic 'events', the first: row 5, column 'x': NaN.*'all'"
    ):
        sender.set_aside([BAD, BAD])


def test_so_many_rows_are_tolerated_and_no_more(sender: ShareSender) -> None:
    sender.options = KafkaSink(topic="events", errors_tolerance="all", max_rejects=2)
    sender.set_aside([BAD])
    sender.set_aside([BAD])
    with pytest.raises(DataError, match="3 rejects, more than max_rejects=2: "):
        sender.set_aside([BAD])


@pytest.mark.parametrize(
    ("rows", "rejected", "accepted", "is_whole"),
    [(9, 1, 10, True), (9, 1, 9, False), (9, 1, 11, False), (9, 0, 10, False), (10, 1, 10, False)],
)
def test_a_share_is_committed_only_if_the_client_took_a_record_for_each_staged_row(
    rows: int, rejected: int, accepted: int, is_whole: bool
) -> None:
    outbox: Any = SimpleNamespace(accepted_records=accepted)
    files = tuple(StagedFile(path=f"{number}", rows=5, size_bytes=1) for number in range(2))
    if is_whole:
        SentShare(rows, rejected).require_all(files, outbox)
    else:
        with pytest.raises(RetriableError, match="10 rows were staged and 10 records were expected"):
            SentShare(rows, rejected).require_all(files, outbox)
