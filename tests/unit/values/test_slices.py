"""How many rows are made records at once: by what their values come to, which their Parquet file does not tell."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.clients.kafka import outbox as _kafka_outbox
from airflow_provider_connect.clients.kafka.outbox import Outbox
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, OutgoingRecords
from airflow_provider_connect.sinks._kafka.sender import BATCH_BYTES, SLICE_BYTES, ShareSender
from airflow_provider_connect.sinks._kafka.topic_rules import TopicLimits
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.rows import read_batches
from tests.equipment.frozen import freeze

MONDAY = dt.date(2026, 10, 5)
LIMITS = TopicLimits(1_048_588, 3_600_000, 2**63 - 1, 1, is_compacted=False)
SPARSE = {f"c{number}": pa.nulls(20_000, pa.string()) for number in range(100)}
KEYS = pa.array([f"{number}" for number in range(20_000)])


class Nowhere(Outbox):
    """A place for records that are only made."""

    def __init__(self) -> None:
        """Make no client."""


def made(root: Path, *tables: pa.Table, **options: Any) -> list[OutgoingRecords]:
    sink = KafkaSink(topic="events", **options)
    publish = freeze(root, MONDAY, *tables)
    plan = DayPlan(publish, "rows", {None: "events"}, {}, {"events": LIMITS}, None)
    return list(ShareSender(sink, plan, Nowhere(), publish.manifest.polled.files, 1)._encode())


@pytest.mark.parametrize("converter", ["json", "json_schema_envelope"])
def test_sparse_rows_are_made_records_a_few_megabytes_at_once(tmp_path: Path, converter: str) -> None:
    slices = made(tmp_path, pa.table({"record_key": KEYS} | SPARSE), value_converter=converter)
    assert sum(len(outgoing.values) for outgoing in slices) == 20_000
    assert slices[0].keys[0] == b"0"
    largest = max(outgoing.size_bytes for outgoing in slices[1:])
    assert SLICE_BYTES / 2 < largest < SLICE_BYTES * 1.2
    first_rows, first_bytes = len(slices[0].values), slices[0].size_bytes
    assert first_rows <= 1000
    assert first_bytes <= 1000 * 20_000


def test_positions_go_on_from_slice_to_slice_and_from_file_to_file(tmp_path: Path) -> None:
    table = pa.table({"record_key": KEYS})
    told = [
        int(dict(row)["connect.position"] or b"")
        for outgoing in made(tmp_path, table, table)
        for row in outgoing.headers or []
    ]
    assert told == [*range(20_000), *range(1 << 40, (1 << 40) + 20_000)]


def test_a_text_that_repeats_is_small_in_its_file_and_large_in_memory(tmp_path: Path) -> None:
    table = pa.table({"record_key": KEYS, "text": pa.array(["x" * 5000]).take(pa.array([0] * 20_000))})
    slices = made(tmp_path, table)
    assert max(outgoing.size_bytes for outgoing in slices) < SLICE_BYTES * 1.2


def test_wide_rows_are_read_a_few_at_once_though_their_file_is_small(tmp_path: Path) -> None:
    publish = freeze(tmp_path, MONDAY, pa.table({"record_key": KEYS} | SPARSE))
    [file] = publish.manifest.polled.files
    assert max(batch.num_rows for _, batch in read_batches(publish.stage, file.path, BATCH_BYTES)) < 4000


def test_headers_count_for_what_a_producer_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_outbox, "QUEUE_KBYTES", 1000)
    nowhere = Connection(conn_id="kafka_default", conn_type="kafka", extra={"bootstrap.servers": "127.0.0.1:1"})
    outbox = Outbox(nowhere, 0.2, {})
    publish = freeze(tmp_path, MONDAY, pa.table({"record_key": KEYS}))
    sink = KafkaSink(topic="events")
    plan = DayPlan(publish, "rows", {None: "events"}, {}, {"events": LIMITS}, None)
    with pytest.raises(RetriableError, match="the broker took none"):
        ShareSender(sink, plan, outbox, publish.manifest.polled.files, 1).send()
    assert 1000 <= outbox.accepted_records <= 8000  # each has about 45 bytes of key and value, and 150 of headers
