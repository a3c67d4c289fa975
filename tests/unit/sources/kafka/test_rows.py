"""Rows of records: converters, envelopes, types, and records that cannot be read."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._kafka.records import Record
from airflow_provider_connect.sources._kafka.rows import RowBuilder
from airflow_provider_connect.sources.kafka import KafkaSource


def record(value: Any = b"{}", key: bytes | None = b"k", offset: int = 0, **fields: Any) -> Record:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return Record("orders", "o.1", 0, offset, 1_700_000_000_123, key, data, [])._replace(**fields)


def rows(*records: Record, tally: Tally | None = None, **options: Any) -> list[dict[str, Any]]:
    builder = RowBuilder(KafkaSource(topics=["orders"], **options))
    batch = builder.build(records, tally or Tally())
    batch.validate(full=True)
    assert batch.schema.equals(builder.schema, check_metadata=True)
    return list(batch.to_pylist())


def one_value(value: Any, kind: str) -> Any:
    (row,) = rows(record({"x": value}), columns={"x": kind})
    return row["x"]


def test_a_record_without_declared_columns_is_checked_json_text_with_its_place() -> None:
    (row,) = rows(record({"a": [1, "é"]}, key="ü".encode(), offset=7, headers=[("h", b"1"), ("n", None)]),
                  own_columns=["topic", "partition", "offset", "timestamp", "headers"])  # fmt: skip
    key = row.pop("record_key")
    assert len(key) == 32
    assert row == {
        "kafka_key": "ü",
        "value": '{"a": [1, "\\u00e9"]}',
        "kafka_delete": False,
        "kafka_topic": "orders",
        "kafka_partition": 0,
        "kafka_offset": 7,
        "kafka_timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, 123000, dt.UTC),
        "kafka_headers": '[["h","1"],["n",null]]',
    }


def test_bytes_and_strings_are_kept_as_they_are() -> None:
    (row,) = rows(record(b"\xff\x00", key=b"\xfe"), key_converter="bytes", value_converter="bytes", own_columns=[])
    assert (row["kafka_key"], row["value"]) == (b"\xfe", b"\xff\x00")
    (row,) = rows(record(b"caf\xc3\xa9", key=None), value_converter="string", own_columns=[])
    assert (row["kafka_key"], row["value"]) == (None, "café")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (7, "bigint", 7),
        (-(2**63), "bigint", -(2**63)),
        (0.1, "double", 0.1),
        (True, "boolean", True),
        ("é\u0000", "string", "é\u0000"),
        (12.5, "decimal(12,2)", Decimal("12.50")),
        ({"b": [1, 2.50]}, "json", '{"b": [1, 2.5]}'),
        ("2026-11-01", "date", dt.date(2026, 11, 1)),
        ("2026-11-01T10:00:00+01:00", "timestamp", dt.datetime(2026, 11, 1, 9, tzinfo=dt.UTC)),
        (1_700_000_000, "epoch_seconds", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)),
        (1_700_000_000_001, "epoch_millis", dt.datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=dt.UTC)),
        (-1, "epoch_micros", dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
        (20_000, "epoch_days", dt.date(2024, 10, 4)),
        (None, "bigint", None),
        (None, "json", None),
    ],
)
def test_a_field_becomes_a_value_of_its_type(value: Any, kind: str, expected: Any) -> None:
    assert one_value(value, kind) == expected


def test_a_decimal_keeps_digits_that_a_double_does_not_have() -> None:
    (row,) = rows(record(b'{"x": 12345678901234567890.123456}'), columns={"x": "decimal(38,6)"})
    assert row["x"] == Decimal("12345678901234567890.123456")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("7", "bigint"),
        (2**63, "bigint"),
        (1.5, "bigint"),
        (True, "bigint"),
        (7, "string"),
        ("x", "double"),
        (1, "boolean"),
        (1.005, "decimal(12,2)"),
        ("2026-13-01", "date"),
        ("yesterday", "timestamp"),
        (10**18, "epoch_seconds"),
        (1.5, "epoch_millis"),
        (10**9, "epoch_days"),
    ],
)
def test_a_value_that_does_not_fit_fails_the_run_or_is_set_aside(value: Any, kind: str) -> None:
    bad, good = record({"x": value}, offset=41), record({}, offset=42)
    with pytest.raises(DataError, match=r"'orders' partition 0 offset 41: field 'x' is no .*errors_tolerance='all'"):
        rows(bad, good, columns={"x": kind})
    tally = Tally()
    (row,) = rows(bad, good, tally=tally, columns={"x": kind}, errors_tolerance="all")
    assert (row["kafka_offset"], row["x"]) == (42, None)
    assert [(one.position, one.record) for one in tally.rejects] == [(41, bad.value)]
    assert (tally.rows, tally.counts["rejected"]) == (2, 1)


@pytest.mark.parametrize("value", [b"", b"[1]", b"7", b'{"a": 1', b'{"a": NaN}', b'{"a": "\xff"}', b'{"a": "\\ud800"}'])
def test_a_value_that_is_no_json_object_is_bad(value: bytes) -> None:
    with pytest.raises(DataError, match="the value is no JSON object"):
        rows(record(value), columns={"a": "string"})


@pytest.mark.parametrize("kind", ["bigint", "double", "string", "timestamp", "epoch_millis", "decimal(12,2)"])
@pytest.mark.parametrize(
    "text", [b"1e999", b"1" * 5_000, b"[" * 5_000 + b"]" * 5_000], ids=["1e999", "digits", "depth"]
)
def test_a_number_out_of_range_or_a_deep_value_is_one_bad_record_of_its_batch(text: bytes, kind: str) -> None:
    tally = Tally()
    bad = record(b'{"x":' + text + b"}", offset=1)
    kept = rows(
        record({}), bad, record({"x": None}, offset=2), tally=tally, columns={"x": kind}, errors_tolerance="all"
    )
    assert [row["kafka_offset"] for row in kept] == [0, 2]
    assert tally.counts["rejected"] == 1


def test_a_timestamp_in_nanoseconds_is_bad_unless_its_column_is_left_out() -> None:
    bad = record(timestamp_ms=1_700_000_000_123_000_000)
    with pytest.raises(DataError, match="timestamp is later than the year 9999"):
        rows(bad)
    assert len(rows(bad, own_columns=["offset"])) == 1


@pytest.mark.parametrize("milliseconds", [-62_135_596_800_001, -(2**63)])
def test_a_timestamp_before_the_year_1_is_bad(milliseconds: int) -> None:
    with pytest.raises(DataError, match="timestamp is before the year 1"):
        rows(record(timestamp_ms=milliseconds))
    assert rows(record(timestamp_ms=-62_135_596_800_000))


def test_more_bad_records_than_allowed_fail_the_run() -> None:
    bad = [record(b"no", offset=number) for number in range(3)]
    with pytest.raises(DataError, match=r"offset 2: the value is no JSON object\. More than max_rejects=2"):
        rows(*bad, columns={"a": "string"}, errors_tolerance="all", max_rejects=2)


def test_a_message_never_holds_the_record_s_values() -> None:
    for options in ({"columns": {"secret": "bigint"}}, {"value_converter": "string"}, {}):
        with pytest.raises(DataError) as caught:
            rows(record(b'{"secret": "hunter2\xff'), **options)
        assert "hunter2" not in str(caught.value)


def test_a_record_without_a_value_deletes_its_key() -> None:
    (row,) = rows(record(None), columns={"id": "bigint"})
    assert (row["kafka_delete"], row["kafka_key"], row["id"]) == (True, "k", None)


def test_keys_of_json_give_typed_columns() -> None:
    options: dict[str, Any] = {"key_converter": "json", "key_columns": {"id": "bigint"}, "columns": {"n": "string"}}
    (row,) = rows(record({"n": "a"}, key=b'{"id": 5}'), **options)
    assert (row["id"], row["n"], "kafka_key" in row) == (5, "a", False)
    for key in (None, b"5", b'{"id": "5"}'):
        with pytest.raises(DataError, match="key"):
            rows(record({"n": "a"}, key=key), **options)


def test_connect_s_envelope_is_taken_off() -> None:
    options: dict[str, Any] = {"envelope": "connect", "columns": {"a": "bigint"}}
    assert rows(record({"schema": {}, "payload": {"a": 1}}), **options)[0]["a"] == 1
    assert rows(record({"schema": None, "payload": None}), **options)[0]["kafka_delete"] is True
    with pytest.raises(DataError, match="the value's payload is no JSON object"):
        rows(record({"schema": {}, "payload": 7}), **options)


@pytest.mark.parametrize(
    ("envelope", "value"),
    [("connect", {"a": 1}), ("connect", {"schema": {}, "a": 1}), ("debezium", {"schema": {}, "op": "c", "after": {}})],
)
def test_a_value_without_an_envelope_s_payload_is_no_delete(envelope: str, value: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="the value has no payload"):
        rows(record(value), envelope=envelope, columns={"a": "bigint"})


@pytest.mark.parametrize("value", [None, {"schema": None, "payload": None}])
def test_a_tombstone_whose_delete_was_compacted_away_deletes_by_the_key_s_fields(value: Any) -> None:
    options: dict[str, Any] = {"key_converter": "json", "key_columns": {"id": "bigint"}, "columns": {"n": "string"}}
    key = json.dumps({"schema": {}, "payload": {"id": 5}}).encode()
    (row,) = rows(record(value, key=key), envelope="debezium", **options)
    assert (row["id"], row["n"], row["kafka_delete"]) == (5, None, True)


def debezium(operation: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "op": operation, "source": {"table": "orders"}, "ts_ms": 1}


@pytest.mark.parametrize("wrapped", [False, True])
def test_debezium_s_operations_become_rows_and_deletes(wrapped: bool) -> None:
    changes = [
        debezium("r", after={"id": 1, "n": "read"}),
        debezium("c", after={"id": 2, "n": "made"}),
        debezium("u", before={"id": 2, "n": "made"}, after={"id": 2, "n": "changed"}),
        debezium("d", before={"id": 1, "n": "read"}),
        debezium("t"),
    ]
    values: list[Any] = [{"schema": {}, "payload": change} if wrapped else change for change in changes]
    tally = Tally()
    records = [record(value, offset=offset) for offset, value in enumerate([*values, None])]
    found = rows(*records, tally=tally, envelope="debezium", columns={"id": "bigint", "n": "string"})
    assert [(row["id"], row["n"], row["kafka_delete"]) for row in found] == [
        (1, "read", False),
        (2, "made", False),
        (2, "changed", False),
        (1, "read", True),
    ]
    assert tally.counts == {"without_row": 2}


def test_a_truncation_needs_no_key() -> None:
    options: dict[str, Any] = {"key_converter": "json", "key_columns": {"id": "bigint"}, "columns": {"n": "string"}}
    tally = Tally()
    assert rows(record(debezium("t"), key=None), tally=tally, envelope="debezium", **options) == []
    assert tally.counts == {"without_row": 1}


@pytest.mark.parametrize("value", [{}, {"op": "x"}, debezium("u"), debezium("c", after=7)])
def test_a_value_that_is_no_change_of_debezium_is_bad(value: Any) -> None:
    with pytest.raises(DataError, match="the value"):
        rows(record(value), envelope="debezium", columns={"id": "bigint"})


def test_merges_are_ordered_by_the_offset_if_it_is_a_column() -> None:
    assert KafkaSource(topics=["t"]).order_columns == ("kafka_offset",)
    assert KafkaSource(topics=["t"], own_columns=["topic"]).order_columns == ()


def test_the_key_of_a_row_names_topic_partition_and_offset() -> None:
    places: list[dict[str, Any]] = [{}, {"offset": 1}, {"partition": 1}, {"identity": "o.2"}, {"value": b'{"a":1}'}]
    keys = [rows(record()._replace(**place))[0]["record_key"] for place in places]
    assert keys[-1] == keys[0]
    assert len(set(keys)) == 4


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "set topics, or topics_pattern"),
        ({"topics": ["a"], "topics_pattern": "a"}, "set topics, or topics_pattern"),
        ({"topics": []}, "topics"),
        ({"topics": ["a b"]}, "write a topic's name of letters"),
        ({"topics_pattern": "a"}, "stream: topics_pattern needs a name"),
        ({"topics_pattern": "(", "stream": "s"}, "not a regular expression"),
        ({"topics": ["a"], "columns": {"x": "int"}}, "use string, bigint"),
        ({"topics": ["a"], "columns": {"x": "bigint"}, "value_converter": "string"}, "gives the column value"),
        ({"topics": ["a"], "columns": {"kafka_offset": "bigint"}}, "is a name of our own columns"),
        ({"topics": ["a"], "columns": {"Day": "date"}}, "is a name of our own columns"),
        ({"topics": ["a"], "key_converter": "json"}, "name the fields in key_columns"),
        ({"topics": ["a"], "envelope": "debezium"}, "set columns, and a value_converter of fields"),
        ({"topics": ["a"], "colums": {}}, "columns"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        KafkaSource(**options)
