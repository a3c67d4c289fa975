"""The parts of the Kafka reader that need no broker: what a ledger record says, and whose a record of the topic is."""

from __future__ import annotations

import datetime as dt
from itertools import product
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.readers import kafka
from airflow_provider_connect.readers._kafka_ledger import LedgerEntry, PartitionId
from airflow_provider_connect.readers.kafka import PublishedDay, json_day, records
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._kafka.ledger import records as written

MONDAY, TUESDAY = dt.date(2026, 10, 5), dt.date(2026, 10, 6)


class Message:
    def __init__(self, value: bytes | None, offset: int = 42) -> None:
        self._value = value
        self._offset = offset

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "events"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return self._offset


def entry(generation: int = 1, token: str = "t", **fields: Any) -> written.DayEntry:
    own: dict[str, Any] = {"counts": fields.pop("counts", {}), "checks": fields.pop("checks", 0)}
    row = LedgerRow(day=MONDAY, generation=generation, token=token, rows=7, attempt=f"a-{token}", **own)
    return written.DayEntry(row=row, **fields)


def read(said: written.DayEntry) -> LedgerEntry:
    return LedgerEntry.parse(said.model_dump_json())


def test_the_reader_reads_the_sinks_records() -> None:
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
        entry(generation, token, checks=checks, built_on=built_on, built_on_checks=built_on_checks, beaten=beaten)
        for generation, checks, token, built_on, built_on_checks, beaten in product(
            (1, 2), (0, 1, 2), ("t", "u"), (None, 0, 1, 2), (0, 1), ((), ("a-t",), ("u/1/1",), ("a-t", "a-u"))
        )
    ]
    seen = [(each, read(each)) for each in made]
    outcomes = {
        (later.counts_instead_of(standing), read_later.supersedes(read_standing))
        for later, read_later in seen
        for standing, read_standing in seen
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


def day(date: dt.date, rows: int, *spans: tuple[int, int], **fields: Any) -> PublishedDay:
    """Return a day with one span in each partition from the third on."""
    places: dict[PartitionId, tuple[int, int]] = {("events", 3 + number): span for number, span in enumerate(spans)}
    return PublishedDay("mixpanel", "export", date, 2, rows, **{"exact": True} | fields, spans=places)


def read_values(monkeypatch: pytest.MonkeyPatch, days: list[PublishedDay], values: dict[int, bytes | None]) -> Any:
    """Read partition 3 of a topic that has these values, by their offsets, and no headers."""
    monkeypatch.setattr(kafka, "read_messages", lambda *_: [Message(value, offset) for offset, value in values.items()])
    read = records({"bootstrap.servers": "127.0.0.1:9"}, days, day_of=json_day)
    return [(found.day, message.offset()) for found, message in read]


def value_of(date: dt.date) -> bytes:
    return b'{"day":"%s"}' % str(date).encode()


@pytest.mark.parametrize("foreign", [None, b"of somebody else", value_of(MONDAY)])
def test_records_between_two_days_are_not_read(monkeypatch: pytest.MonkeyPatch, foreign: bytes | None) -> None:
    values = {0: value_of(MONDAY), 1: foreign, 2: foreign, 3: value_of(TUESDAY), 4: value_of(MONDAY), 6: foreign}
    days = [day(TUESDAY, 1, (3, 6)), day(MONDAY, 1, (0, 1))]
    assert read_values(monkeypatch, days, values) == [(MONDAY, 0), (TUESDAY, 3)]


def test_a_record_without_a_value_is_of_the_day_that_fills_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {0: value_of(TUESDAY), 1: None, 2: value_of(MONDAY), 3: value_of(TUESDAY)}
    days = [day(MONDAY, 2, (1, 3)), day(TUESDAY, 2, (0, 4))]
    assert read_values(monkeypatch, days, values) == [(TUESDAY, 0), (MONDAY, 1), (MONDAY, 2), (TUESDAY, 3)]


@pytest.mark.parametrize("spans", [[(0, 3)], [(0, 2), (7, 8)]])
def test_a_record_without_a_value_among_those_of_others_is_an_error(
    monkeypatch: pytest.MonkeyPatch, spans: list[tuple[int, int]]
) -> None:
    with pytest.raises(DataError, match=r"offset 1: .*not a JSON object with a day.*headers=True"):
        read_values(monkeypatch, [day(MONDAY, 2, *spans)], {0: value_of(MONDAY), 1: None})


def test_a_value_of_another_day_is_left_out_even_where_one_day_fills_the_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a topic that was made anew: the day is not whole then."""
    with pytest.raises(DataError, match="found 1 of 2 published records"):
        read_values(monkeypatch, [day(MONDAY, 2, (0, 2))], {0: value_of(MONDAY), 1: value_of(TUESDAY)})


def test_a_day_of_that_cannot_tell_leaves_it_to_the_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "read_messages", lambda *_: [Message(b"text", 0), Message(b"text", 1)])

    def read(*spans: tuple[int, int]) -> list[PublishedDay]:
        settings = {"bootstrap.servers": "127.0.0.1:9"}
        return [found for found, _ in records(settings, [day(MONDAY, 2, *spans)], day_of=lambda _: None)]

    assert [found.day for found in read((0, 2))] == [MONDAY, MONDAY]
    with pytest.raises(DataError, match=r"'events', partition 3, offset 0: .*records of other days.*headers=True"):
        read((0, 4))
