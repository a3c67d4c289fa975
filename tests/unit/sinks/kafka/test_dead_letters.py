"""Dead letters of the sink and of the source, with the headers that Connect gives them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.kafka import outbox as _kafka_outbox
from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._kafka.dead_letters import DeadLetter, DeadLetterSender
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, RejectedRow
from airflow_provider_connect.sinks._kafka.topic_rules import TopicLimits
from airflow_provider_connect.stage.manifest import Manifest, PollResult
from airflow_provider_connect.stage.rejects import Reject, write_rejects
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
PREFIX = "__connect.errors."


class Nowhere(Outbox):
    """A place for letters that are only made."""

    def __init__(self) -> None:
        """Make no client."""


def letters_of(root: Path, polled: PollResult | None = None) -> DeadLetterSender:
    manifest = Manifest(day=DAY, attempt="0a-1-20261005", fingerprint="f", polled=polled or PollResult())
    publish = Publish(
        key=StreamKey(connector="mixpanel", stream="export"),
        day=DAY,
        intent=Intent(token="t", run="dag/run/task"),
        manifest=manifest,
        schema=pa.schema([]),
        stage=str(root),
    )
    return DeadLetterSender(DayPlan(publish, "rows", {}, {}, {}, None), Nowhere(), "events")


def headers(letter: DeadLetter) -> dict[str, str]:
    found = {name: value.decode() for name, value in letter.headers if isinstance(value, bytes)}
    assert len(found) == len(letter.headers)
    return found


def test_a_refused_row_names_its_place_its_column_and_its_topic(tmp_path: Path) -> None:
    bad = RejectedRow((3 << 40) + 7, "events", "VALUE_CONVERTER", "x", "NaN", b"k", lambda: b'{"x": "nan"}')
    [letter] = letters_of(tmp_path).make_refused_letters([bad])
    assert (letter.key, letter.value) == (b"k", b'{"x": "nan"}')
    assert headers(letter) == {
        f"{PREFIX}topic": "events",
        f"{PREFIX}partition": "3",
        f"{PREFIX}offset": "7",
        f"{PREFIX}connector.name": "mixpanel/export",
        f"{PREFIX}task.id": "0a-1-20261005",
        f"{PREFIX}stage": "VALUE_CONVERTER",
        f"{PREFIX}class.name": "airflow_provider_connect.sinks.kafka.KafkaSink",
        f"{PREFIX}exception.class.name": "airflow_provider_connect.errors.DataError",
        f"{PREFIX}exception.message": "column 'x': NaN",
        "connect.day": "2026-10-05",
    }


def test_a_row_that_is_refused_as_a_whole_names_no_column(tmp_path: Path) -> None:
    bad = RejectedRow(0, "events", "TASK_PUT", None, "too large", None, lambda: b"{}")
    [letter] = letters_of(tmp_path).make_refused_letters([bad])
    assert headers(letter)[f"{PREFIX}exception.message"] == "too large"
    assert letter.key is None


def test_what_the_source_set_aside_is_kept_as_it_was_sent(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    given = [[Reject(0, "no JSON", b"{"), Reject(9, "no JSON", b"\xff\0")], [Reject(4, "no time", b"{}")]]
    files = tuple(write_rejects(folder, f"rejects-{part}.parquet", rejects) for part, rejects in enumerate(given))
    letters = list(letters_of(tmp_path, PollResult(rejects=tuple(filter(None, files)))).make_source_letters())
    assert [letter.value for letter in letters] == [b"{", b"\xff\0", b"{}"]
    told = [headers(letter) for letter in letters]
    assert [(one[f"{PREFIX}partition"], one[f"{PREFIX}offset"]) for one in told] == [("0", "0"), ("0", "9"), ("1", "4")]
    assert {one[f"{PREFIX}stage"] for one in told} == {"TASK_POLL"}
    assert told[2][f"{PREFIX}exception.message"] == "no time"
    assert told[0][f"{PREFIX}class.name"] == "mixpanel"


def test_headers_count_for_what_a_producer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_outbox, "QUEUE_KBYTES", 1)
    nowhere = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    limits = TopicLimits(10_000, 3_600_000, 2**63 - 1, 1, is_compacted=False)
    plan = replace(letters_of(tmp_path).plan, dead_letter_topic="t", limits={"t": limits})
    bad = RejectedRow(0, "events", "TASK_PUT", None, "x" * 600, None, lambda: b"v")
    with pytest.raises(RetriableError, match="the broker took none of 1 records"):
        DeadLetterSender(plan, Outbox(nowhere, 0.3, {}), "events").send_refused([bad] * 3)
