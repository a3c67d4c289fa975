"""From rows to records, without a broker: keys, values, headers, times, topics, and what is refused and how."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._kafka.record_encoder import DayPlan, OutgoingRecords, RecordEncoder
from airflow_provider_connect.sinks._kafka.topic_rules import TopicLimits
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.stage.manifest import Manifest, PollResult
from airflow_provider_connect.values.converters import SchemaRef
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
PUBLISH = Publish(
    key=StreamKey(connector="mixpanel", stream="export"),
    day=DAY,
    intent=Intent(token="t" * 32, run="dag/run/task"),
    manifest=Manifest(day=DAY, attempt="a", fingerprint="f", polled=PollResult()),
    schema=pa.schema([]),
    stage="stage",
)
FOREVER = 2**63 - 1
LIMITS = TopicLimits(1_048_588, 3_600_000, FOREVER, 1, is_compacted=False)
ROWS = {"event": ["a", "b"], "n": [1, 2], "record_key": ["k1", "k2"]}


def made(
    columns: dict[str, Any], limits: TopicLimits = LIMITS, refs: dict[str, SchemaRef] | None = None, **options: Any
) -> list[OutgoingRecords]:
    sink = KafkaSink(**{"topic": "events"} | options)
    batch = pa.RecordBatch.from_pydict(columns)
    column = sink.route_column
    values = [str(value) if value is not None else None for value in batch.column(column).to_pylist()] if column else []
    routes: dict[str | None, str] = {value: f"t-{value}" for value in values} if column else {None: sink.topic}
    publish = replace(PUBLISH, schema=batch.schema)
    plan = DayPlan(publish, "rows", routes, refs or {}, dict.fromkeys(routes.values(), limits), None)
    return list(RecordEncoder(sink, plan, 7).encode(batch, 1 << 40))


def one(columns: dict[str, Any], **options: Any) -> OutgoingRecords:
    [outgoing] = made(columns, **options)
    return outgoing


def headers(outgoing: OutgoingRecords) -> list[dict[str, bytes]]:
    assert outgoing.headers is not None
    assert all(len(dict(row)) == len(row) for row in outgoing.headers)
    return [dict(row) for row in outgoing.headers]  # type: ignore[arg-type]


def test_a_record_has_key_value_and_every_header() -> None:
    outgoing = one(ROWS)
    assert outgoing.keys == [b"k1", b"k2"]
    assert json.loads(outgoing.values[0] or b"") == {"day": "2026-10-05", "event": "a", "n": 1, "record_key": "k1"}
    assert headers(outgoing)[1] == {
        "connect.connector": b"mixpanel",
        "connect.stream": b"export",
        "connect.day": b"2026-10-05",
        "connect.generation": b"7",
        "connect.event_id": b"k2",
        "connect.position": b"%d" % ((1 << 40) + 1),
    }
    assert outgoing.timestamps is None
    assert outgoing.size_bytes == sum(len(text or b"") for text in [*outgoing.keys, *outgoing.values])


def test_the_event_id_is_a_text_whatever_the_key_is() -> None:
    outgoing = one(ROWS, key_converter="json", key_fields=("record_key",))
    assert outgoing.keys == [b'{"record_key":"k1"}', b'{"record_key":"k2"}']
    assert [row["connect.event_id"] for row in headers(outgoing)] == [b"k1", b"k2"]


def test_the_schema_version_is_that_of_the_records_own_topic() -> None:
    refs = {"t-a": SchemaRef("t-a-value", 5, 2), "t-b": SchemaRef("t-b-value", 6, 3)}
    options: dict[str, Any] = {"value_converter": "avro", "registry_conn_id": "registry"}
    first, second = made(ROWS, topic="x_{event}", refs=refs, **options)
    assert [row["connect.schema_version"] for row in headers(first) + headers(second)] == [b"2", b"3"]
    assert (first.values[0] or b"")[:5] == b"\0\0\0\0\5"
    assert (second.values[0] or b"")[:5] == b"\0\0\0\0\6"


def test_the_event_id_is_the_record_key_whatever_the_key_is() -> None:
    outgoing = one(ROWS, key_fields=("event", "n"))
    assert outgoing.keys == [b'["a",1]', b'["b",2]']
    assert [row["connect.event_id"] for row in headers(outgoing)] == [b"k1", b"k2"]
    assert [row["connect.event_id"] for row in headers(one(ROWS, key_fields=()))] == [b"k1", b"k2"]
    without = {"event": ["a", None]}
    assert [row["connect.event_id"] for row in headers(one(without, key_fields=("event",)))] == [b"a", b""]


def test_without_headers_there_are_none() -> None:
    outgoing = one(ROWS, headers=False)
    assert (outgoing.headers, outgoing.keys) == (None, [b"k1", b"k2"])


def test_rows_go_to_the_topic_of_their_value_in_their_order() -> None:
    columns = {"event": ["a", None, "b", "a"], "record_key": ["1", "2", "3", "4"]}
    found = {out.topic: out for out in made(columns, topic="x_{event}")}
    assert {topic: out.keys for topic, out in found.items()} == {"t-a": [b"1", b"4"], "t-None": [b"2"], "t-b": [b"3"]}
    assert [int(row["connect.position"]) - (1 << 40) for row in headers(found["t-a"])] == [0, 3]


def test_timestamps_are_milliseconds_and_null_is_now() -> None:
    at = dt.datetime(2026, 10, 5, 12, 0, 0, 123456, tzinfo=dt.UTC)
    columns = {"record_key": ["1", "2"], "time": pa.array([at, None], pa.timestamp("us", "UTC"))}
    assert one(columns, timestamp_field="time").timestamps == [int(at.timestamp() * 1000), 0]


def test_a_deleted_row_is_a_tombstone_also_where_its_value_could_not_be_written() -> None:
    columns = {"record_key": ["1", "2", "3"], "gone": [True, False, None], "x": [float("nan"), 1.0, 2.0]}
    outgoing = one(columns, delete_where="gone")
    assert [value is None for value in outgoing.values] == [True, False, False]
    assert outgoing.refused == []


def test_refused_rows_are_left_out_of_everything_and_kept_as_json() -> None:
    late = 300_000_000_000_000_000  # the year 11476, which Python's datetime has not
    columns = {
        "record_key": ["1", "2", "3"],
        "time": pa.array([0, late, 1], pa.timestamp("us", "UTC")),
        "raw": [b"\xff", b"\xfe", b""],
    }
    outgoing = one(columns)
    assert outgoing.keys == [b"1", b"3"]
    assert len(outgoing.values) == len(outgoing.headers or []) == 2
    [bad] = outgoing.refused
    assert (bad.position, bad.topic, bad.stage, bad.column) == ((1 << 40) + 1, "events", "VALUE_CONVERTER", "time")
    assert bad.key == b"2"
    assert json.loads(bad.make_json())["raw"] == "/g=="
    assert "11476" not in bad.reason


def test_a_key_that_cannot_be_written_is_refused_by_the_key_converter() -> None:
    [bad] = one({"k": [float("nan")], "record_key": ["1"]}, key_fields=("k",), value_converter="string",
                value_field="record_key").refused  # fmt: skip
    assert (bad.stage, bad.column, bad.key) == ("KEY_CONVERTER", "k", None)


@pytest.mark.parametrize("with_headers", [True, False])
def test_a_record_that_its_topic_would_refuse_for_its_size_is_refused_before(with_headers: bool) -> None:
    limits = replace(LIMITS, max_message_bytes=5000)
    columns = {"record_key": ["1", "2", "k" * 2400], "text": ["a" * 5000, "b" * 3000, ""]}
    outgoing = one(columns, limits=limits, headers=with_headers)
    by_position = {bad.position - (1 << 40): bad for bad in outgoing.refused}
    # A long key is sent a second time as the event id, and a third time in the value.
    assert sorted(by_position) == [0, 2]
    assert by_position[0].stage == "TASK_PUT"
    assert "topic 'events' accepts 5,000" in by_position[0].reason
    assert outgoing.keys == [b"2"]


def test_the_event_id_counts_for_the_size_where_there_are_headers() -> None:
    limits = replace(LIMITS, max_message_bytes=5000)
    columns = {"record_key": ["k" * 2200], "value": ["v"]}
    options: dict[str, Any] = {"value_converter": "string", "value_field": "value", "limits": limits}
    assert len(one(columns, **options).refused) == 1
    assert one(columns, headers=False, **options).refused == []


def test_a_compacted_topic_takes_no_record_without_a_key() -> None:
    limits = replace(LIMITS, is_compacted=True)
    [bad] = one({"event": ["a", None]}, key_fields=("event",), limits=limits).refused
    assert (bad.position - (1 << 40), bad.reason) == (1, "no key, and the topic is compacted")


def test_a_time_outside_the_topics_limits_rejects_the_row() -> None:
    now = dt.datetime.now(dt.UTC)
    times = [now, now + dt.timedelta(hours=2), now - dt.timedelta(days=2), None]
    columns = {"record_key": list("1234"), "time": pa.array(times, pa.timestamp("us", "UTC"))}
    limits = replace(LIMITS, timestamp_before_max_ms=86_400_000)
    refused = one(columns, timestamp_field="time", limits=limits).refused
    assert [bad.position - (1 << 40) for bad in refused] == [1, 2]
    assert all("message.timestamp" in bad.reason for bad in refused)


def test_a_time_before_1970_rejects_the_row() -> None:
    times = pa.array([-1, 0, 1], pa.timestamp("ms", "UTC"))
    outgoing = one({"record_key": list("123"), "time": times}, timestamp_field="time")
    assert [(bad.position - (1 << 40), bad.column) for bad in outgoing.refused] == [(0, "time"), (1, "time")]
    assert outgoing.timestamps == [1]


def test_the_reason_of_a_refusal_tells_no_value() -> None:
    [bad] = one({"record_key": ["1"], "x": [float("nan")], "secret": ["canary"]}).refused
    assert bad.column == "x"
    assert "canary" not in bad.reason
