"""The parts of the Kafka reader that need no broker: what a ledger record says, and whose a record of the topic is."""

from __future__ import annotations

import datetime as dt
from itertools import product
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.readers._kafka.ledger import Entry
from airflow_provider_connect.readers.kafka import PublishedDay, json_day, records
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger import records as written

MONDAY = dt.date(2026, 10, 5)


class Message:
    def __init__(self, value: bytes | None) -> None:
        self._value = value

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42


def entry(generation: int = 1, token: str = "t", **fields: Any) -> written.Entry:
    row = LedgerRow(
        day=MONDAY, generation=generation, token=token, rows=7, attempt=f"a-{token}", counts=fields.pop("counts", {})
    )
    return written.Entry(row=row, **fields)


def read(said: written.Entry) -> Entry:
    return Entry.parse(said.model_dump_json())


def test_what_the_sink_writes_is_read() -> None:
    said = entry(3, offsets={"one": {0: (4, 9), 2: (0, 1)}, "two": {1: (5, 6)}}, columns={"event": "string"})
    found = read(said)
    assert (found.generation, found.rows) == (3, 7)
    assert found.spans == {("one", 0): (4, 9), ("one", 2): (0, 1), ("two", 1): (5, 6)}
    assert not found.only_changes


@pytest.mark.parametrize("count", ["unchanged", "vanished"])
def test_a_snapshot_of_which_only_changes_were_sent_is_known(count: str) -> None:
    assert read(entry(counts={count: 1})).only_changes
    assert not read(entry(counts={count: 0, "rejected": 2})).only_changes


def test_of_two_records_for_a_day_the_one_counts_that_counts_for_the_sink() -> None:
    made = [
        entry(generation, token, built_on=built_on, beaten=beaten)
        for generation, token, built_on, beaten in product(
            (1, 2), ("t", "u"), (None, 0, 1, 2), ((), ("a-t",), ("a-u",), ("a-t", "a-u"))
        )
    ]
    outcomes = {
        (later.counts_over(standing), read(later).counts_over(read(standing))) for later in made for standing in made
    }
    assert outcomes == {(True, True), (False, False)}


def test_a_json_value_tells_its_day() -> None:
    assert json_day(Message(b'{"day":"2026-10-05","event":"a"}')) == MONDAY  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"canary", b"[1]", b'"canary"', b"{}", b'{"day":20000}'])
def test_a_value_without_a_day_is_an_error_that_names_its_place(value: bytes | None) -> None:
    with pytest.raises(DataError, match=r"'events', partition 3, offset 42: .* not a JSON object with a day") as caught:
        json_day(Message(value))  # type: ignore[arg-type]
    assert "canary" not in str(caught.value)


def test_days_of_two_streams_are_not_told_apart_by_their_values() -> None:
    days = [PublishedDay("mixpanel", stream, MONDAY, 1, 1, exact=True, spans={}) for stream in ("a", "b")]
    with pytest.raises(ConfigError, match="of several: mixpanel/a, mixpanel/b"):
        list(records({"bootstrap.servers": "127.0.0.1:9"}, days, day_of=json_day))
