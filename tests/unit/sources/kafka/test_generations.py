"""Which records of a topic belong to a day's newest generation."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.readers._kafka_ledger import EntryKey, LedgerEntry
from airflow_provider_connect.sources._kafka.generations import PublishedDay, published_day
from airflow_provider_connect.sources._kafka.published import require_no_generations
from airflow_provider_connect.sources._kafka.records import Record

MONDAY, TUESDAY = dt.date(2026, 11, 2), dt.date(2026, 11, 3)
ORDERS = ("orders", 0)


def entry(begin: int, end: int, *, generation: int = 1, rows: int | None = None, **more: Any) -> LedgerEntry:
    offsets = {ORDERS: (begin, end)} if end > begin else {}
    values = (generation, 0, end - begin if rows is None else rows, "t", "a", more.pop("only_changes", False))
    return LedgerEntry(*values, more.pop("spans", offsets), None, 0, frozenset(), more.pop("number", None))


def key(day: dt.date = MONDAY, part: int = 0, stream: str = "s") -> EntryKey:
    return EntryKey("mixpanel", stream, "orders", day, part)


def record(offset: int, generation: int | None = 1, day: dt.date = MONDAY, span: int | None = None) -> Record:
    headers = [("connect.connector", b"mixpanel"), ("connect.stream", b"s"), ("connect.day", str(day).encode())]
    headers += [("connect.generation", b"%d" % generation)] if generation is not None else []
    headers += [("connect.span", b"%d" % span)] if span is not None else []
    return Record("orders", "id", 0, offset, None, None, b"{}", headers if generation is not None else [])


def carried(day: PublishedDay) -> PublishedDay:
    """Return the day as a Spark task gets it."""
    return PublishedDay.from_params(json.loads(json.dumps(day.params([ORDERS]))))


def test_records_of_older_generations_other_days_and_other_offsets_are_left_out() -> None:
    day = carried(published_day({key(): entry(10, 20, generation=2, rows=8)}, ["orders"], MONDAY))
    assert day.has(record(10, 2))
    assert [day.has(one) for one in (record(9, 2), record(20, 2), record(12, 1), record(12, 2, TUESDAY))] == [False] * 4
    assert not day.has(record(12, None)), "other records lie between, so a header must name the generation"


def test_records_without_headers_belong_to_a_day_with_as_many_offsets_as_rows() -> None:
    day = carried(published_day({key(): entry(10, 20)}, ["orders"], MONDAY))
    assert day.has(record(19, None))
    assert not day.has(record(20, None))


def test_a_day_of_increments_has_each_span_in_its_newest_generation() -> None:
    entries = {
        key(): entry(0, 5, number=1, rows=4),
        key(part=2): entry(40, 45, generation=2, number=2, rows=4),
        key(TUESDAY): entry(20, 25, number=3),
    }
    day = carried(published_day(entries, ["orders"], MONDAY))
    assert day.has(record(1))
    assert day.has(record(1, span=1))
    assert day.has(record(41, 2, span=2))
    assert not day.has(record(41, 1, span=2))
    assert not day.has(record(1, 2, span=2))
    assert day.stretches() == [(ORDERS, 0, 5), (ORDERS, 40, 45)]


def test_a_day_that_may_grow_is_not_read_yet() -> None:
    entries = {key(): entry(0, 5, number=1), key(part=2): entry(5, 9, number=2)}
    with pytest.raises(RetriableError, match="may get further increments"):
        published_day(entries, ["orders"], MONDAY)


def test_an_empty_day_is_empty_and_a_missing_one_is_waited_for() -> None:
    entries = {key(): entry(0, 5), key(TUESDAY): entry(0, 0)}
    assert published_day(entries, ["orders"], TUESDAY).stretches() == []
    with pytest.raises(RetriableError, match="is not published yet"):
        published_day(entries, ["orders"], dt.date(2026, 11, 4))


def test_streams_of_one_topic_are_chosen_by_name() -> None:
    entries = {key(): entry(0, 5), key(stream="other"): entry(5, 9, rows=3)}
    with pytest.raises(ConfigError, match="Set published_stream to one of: mixpanel/other, mixpanel/s"):
        published_day(entries, ["orders"], MONDAY)
    assert published_day(entries, ["orders"], MONDAY, "mixpanel/other").rows == 3
    with pytest.raises(ConfigError, match="the ledger has no day of topic 'items'"):
        published_day(entries, ["items"], MONDAY)


def test_a_part_of_the_topics_is_no_whole_day() -> None:
    entries = {key(): entry(0, 5, spans={ORDERS: (0, 5), ("items", 0): (0, 3)})}
    assert not published_day(entries, ["orders"], MONDAY).is_whole
    assert published_day(entries, ["orders", "items"], MONDAY).is_whole


def test_snapshots_of_changes_are_no_days() -> None:
    with pytest.raises(ConfigError, match="only changes are sent"):
        published_day({key(): entry(0, 5, only_changes=True)}, ["orders"], MONDAY)


def test_only_topics_that_the_ledger_names_are_refused_by_offset() -> None:
    require_no_generations(["items"], {key(): entry(0, 5)}, "ledger")
    with pytest.raises(ConfigError, match="topic 'orders' was written by a KafkaSink: ledger topic 'ledger' names it"):
        require_no_generations(["items", "orders"], {key(): entry(0, 5)}, "ledger")
