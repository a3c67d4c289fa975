"""The offsets of an increment: positions, ranges, and what is done about lost records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sources._kafka.positions import Position, digest_of, identity_of
from airflow_provider_connect.sources._kafka.ranges import MAX_PARTS, OffsetRange, deal_out
from airflow_provider_connect.sources._kafka.spans import (
    Increment,
    OnLost,
    PartitionBounds,
    TopicState,
    next_increment,
    same_increment,
)

ORDERS, ITEMS = identity_of("orders", "AAAAAAAAAAAAAAAAAAAAAQ"), identity_of("items", "BBBBBBBBBBBBBBBBBBBBBB")


def topic(*bounds: tuple[int, int, int], name: str = "orders", identity: str = ORDERS) -> TopicState:
    return TopicState(name, identity, {number: PartitionBounds(*one) for number, one in enumerate(bounds)})


def read(*topics: TopicState, after: dict[int, int] | None = None, on_lost: OnLost = "fail") -> Increment:
    return next_increment(topics, None if after is None else Position({ORDERS: after}), "earliest", on_lost)


def spans(increment: Increment) -> dict[int, tuple[int, int]]:
    return {one.partition: (one.begin, one.end) for one in increment.ranges}


OFFSETS = st.dictionaries(st.integers(0, 30), st.integers(0, 2**62), min_size=1, max_size=5)


@given(st.dictionaries(st.sampled_from([ORDERS, ITEMS, identity_of("a", "c+/d")]), OFFSETS, max_size=3))
def test_a_position_is_read_as_it_was_written(topics: dict[str, dict[int, int]]) -> None:
    assert Position.parse(Position(topics).text()).topics == topics


def test_a_position_that_no_ledger_can_keep_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 topics with 20000 partitions are too many for one stream"):
        Position({ORDERS: dict.fromkeys(range(20_000), 10**9)}).text()


@pytest.mark.parametrize("text", ['{"id": 7}', "7", "a=b=c", "a=!", '{"at":"2026-11-01 10:00:00"}'])
def test_a_position_of_another_source_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not one of Kafka offsets"):
        Position.parse(text)


def test_the_first_run_reads_what_exists_and_the_next_one_what_came_since() -> None:
    first = read(topic((3, 10, 10), (0, 0, 0)))
    assert spans(first) == {0: (3, 10), 1: (0, 0)}
    second = next_increment([topic((3, 12, 12), (0, 5, 5), (0, 2, 2))], first.end, "earliest", "fail")
    assert spans(second) == {0: (10, 12), 1: (0, 5), 2: (0, 2)}, "a new partition is read from its beginning"
    assert second.end.topics == {ORDERS: {0: 12, 1: 5, 2: 2}}


def test_a_first_run_at_the_latest_offsets_reads_nothing_and_new_partitions_are_read_whole() -> None:
    first = next_increment([topic((3, 10, 10))], None, "latest", "fail")
    assert spans(first) == {0: (10, 10)}
    assert spans(same_increment([topic((3, 12, 12))], None, first.end, "latest")) == {0: (10, 10)}
    assert spans(next_increment([topic((3, 10, 10), (1, 4, 4))], first.end, "latest", "fail"))[1] == (1, 4)


def test_records_of_an_open_transaction_are_left_to_the_next_run() -> None:
    increment = read(topic((0, 8, 11)), after={0: 5})
    assert spans(increment) == {0: (5, 8)}
    assert increment.warnings == [
        "topic 'orders' partition 0: a transaction is open at offset 8. Up to 3 records are left to the next run"
    ]


@pytest.mark.parametrize(
    ("state", "problem", "begin"),
    [
        ((7, 9, 9), "the records from offset 5 to 6 were deleted before they were read", 7),
        ((0, 3, 3), "ends at offset 3, and 5 was read: a broker has lost records", 3),
    ],
)
def test_lost_records_are_refused_or_told(state: tuple[int, int, int], problem: str, begin: int) -> None:
    with pytest.raises(ConfigError, match=problem):
        read(topic(state), after={0: 5})
    increment = read(topic(state), after={0: 5}, on_lost="warn")
    assert spans(increment)[0][0] == begin
    assert problem in increment.warnings[0]


def test_a_topic_that_was_made_again_is_not_taken_for_the_former_one() -> None:
    again = topic((0, 4, 4), identity=identity_of("orders", "CCCCCCCCCCCCCCCCCCCCCC"))
    with pytest.raises(ConfigError, match="'orders' has another id than at the last run"):
        read(again, after={0: 900})
    increment = read(again, after={0: 900}, on_lost="warn")
    assert spans(increment) == {0: (0, 4)}
    assert list(increment.end.topics) == [again.identity]


def test_a_topic_that_is_not_selected_any_more_keeps_its_offsets() -> None:
    items = topic((0, 4, 4), name="items", identity=ITEMS)
    assert read(items, after={0: 900}).end.topics == {ORDERS: {0: 900}, ITEMS: {0: 4}}


def test_an_increment_is_read_again_between_its_own_offsets() -> None:
    begins = digest_of([(ORDERS, 1, 0), (ITEMS, 0, 0)])
    after, to = Position({ORDERS: {0: 5}}), Position({ORDERS: {0: 9, 1: 3}, ITEMS: {0: 1}}, begins)
    items = topic((0, 6, 6), name="items", identity=ITEMS)
    again = same_increment([topic((0, 20, 20), (0, 7, 7)), items], after, to, "earliest")
    assert sorted((one.topic, one.partition, one.begin, one.end) for one in again.ranges) == [
        ("items", 0, 0, 1),
        ("orders", 0, 5, 9),
        ("orders", 1, 0, 3),
    ]
    assert again.end == to


@pytest.mark.parametrize(
    ("topics", "problem"),
    [
        ([], "the topic was deleted, or the options do not select it any more"),
        ([topic((7, 20, 20))], "the records from offset 5 to 6 were deleted"),
        ([topic((0, 6, 6))], "ends at offset 6, and the increment reached 9"),
    ],
)
def test_an_increment_whose_records_are_gone_is_not_replaced(topics: list[TopicState], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        same_increment(topics, Position({ORDERS: {0: 5}}), Position({ORDERS: {0: 9}}), "earliest")


@pytest.mark.parametrize("first", [3, 4, 10, 15])
def test_a_first_increment_without_its_oldest_records_is_not_replaced(first: int) -> None:
    increment = read(topic((2, 10, 10), (0, 0, 0)))
    end = Position.parse(increment.end.text())
    assert spans(same_increment([topic((2, 20, 20), (0, 9, 9))], None, end, "earliest"))[0] == (2, 10)
    with pytest.raises(ConfigError, match="the oldest records of this increment were deleted"):
        same_increment([topic((first, 20, 20), (0, 9, 9))], None, end, "earliest")


def test_a_topic_without_new_records_is_not_asked_for_again() -> None:
    ends = Position({ORDERS: {0: 5}})
    assert same_increment([], ends, ends, "earliest").ranges == []


RANGES = st.lists(
    st.builds(
        lambda number, begin, length: OffsetRange(f"t{number}", ORDERS, number, begin, begin + length),
        st.integers(0, 40),
        st.integers(0, 10**9),
        st.one_of(st.integers(0, 50), st.integers(0, 10**7)),
    ),
    unique_by=lambda one: one.partition,
)


@given(RANGES, st.integers(1_000, 1_000_000), st.randoms())
def test_the_parts_hold_every_offset_once_and_do_not_depend_on_the_order(
    ranges: list[OffsetRange], size: int, random: object
) -> None:
    parts = deal_out(ranges, size)
    pieces = sorted(piece for part in parts for piece in part)
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].partition == piece.partition and joined[-1].end == piece.begin:
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    assert joined == sorted(one for one in ranges if one.offsets)
    assert parts == deal_out(list(reversed(ranges)), size)
    assert all(len({(one.topic, one.partition) for one in part}) == len(part) for part in parts), "one range each"
    total = sum(one.offsets for one in ranges)
    assert all(sum(piece.offsets for piece in part) <= max(size, -(-total // MAX_PARTS)) for part in parts)


def test_brokers_without_topic_ids_are_told_of() -> None:
    nameless = topic((0, 5, 5), identity=identity_of("orders", "A" * 22))
    assert "the brokers give topic 'orders' and 0 more no id" in read(nameless).warnings[0]
    assert read(topic((0, 5, 5))).warnings == []
