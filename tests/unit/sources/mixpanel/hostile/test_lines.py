"""Answers that are made to cost much: a poll of them ends with what it should, in bounded memory."""

import tracemalloc
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from airflow_provider_connect.errors import DataError
from tests.unit.sources.mixpanel.test_rows import GOOD, read, record

NESTED = {
    "beside a number": b'{"distinct_id":5,"a":%s}',
    "a number": b'{"distinct_id":%s}',
    "beside an insert id": b'{"$insert_id":1.50,"a":%s}',
    "time": b'{"time":%s,"distinct_id":7}',
}


def peak_bytes(body):
    """Return the most memory that reading took, and what was counted."""
    read(GOOD + b"\n")  # what is imported then is none of it
    tracemalloc.start()
    try:
        counts = read(body, block_bytes=4 << 20)[1].counts
        return tracemalloc.get_traced_memory()[1], counts
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b" \n", b"\t \r\n"])
def test_millions_of_blank_lines_cost_little_more_than_their_bytes(line):
    number = 4_300_000 // len(line)
    peak, counts = peak_bytes(GOOD + b"\n" + line * number + GOOD + b"\n")
    assert (counts["blank_lines"], counts["duplicates"]) == (number, 1)
    assert peak < 40 << 20


def test_the_blank_lines_of_a_day_are_counted_and_part_nothing():
    split = [b'{"event":"e",', b'"properties":{}}']
    rows, tally = read(b"\n".join([b"", GOOD, b" ", split[0], b"\t\r", b"", split[1], b" " * 40, b""]))
    assert (len(rows), tally.counts["blank_lines"], tally.counts["rejected"]) == (2, 5, 0)
    assert tally.counts["rejoined"] == 1


def read_nested(form, depth, **options):
    """Read a nested line between two good ones, in a thread: how deep is too deep depends on the stack below."""
    line = record(properties=NESTED[form] % (b"[" * depth + b"1" + b"]" * depth))
    body = b"\n".join([GOOD, line, GOOD.replace(b'"i"', b'"j"'), b""])
    with ThreadPoolExecutor(1) as pool:
        rows, tally = pool.submit(read, body, **options).result()
    assert len([row for row in rows if row["event"] == "good"]) == 2
    assert [reject.record for reject in tally.rejects] in ([line], [])
    assert len(rows) + len(tally.rejects) == 3
    return tally.rejects


@cache
def first_rejected_depth(form):
    """Return the least depth that this interpreter cannot read: each has limits of its own."""
    deep = 2
    while not read_nested(form, deep):
        deep *= 2
    return bisect_left(range(deep), True, lo=1, key=lambda depth: bool(read_nested(form, depth)))


@pytest.mark.parametrize("form", NESTED)
def test_a_line_is_a_reject_from_the_depth_on_at_which_any_part_of_it_cannot_be_read(form):
    first = first_rejected_depth(form)
    assert first > 500
    assert not any(read_nested(form, depth) for depth in range(first - 20, first))
    assert all(read_nested(form, depth) for depth in range(first, first + 20))


@pytest.mark.parametrize("form", ["beside a number", "beside an insert id"])
def test_a_number_beside_deep_nesting_is_a_reject_though_the_rest_could_be_read(form):
    (reject,) = read_nested(form, first_rejected_depth(form))
    assert "identifier" in reject.reason, "the depth does not meet the case this test is for"
    (alone,) = read_nested(form, first_rejected_depth(form), chunk_bytes=100, block_bytes=1)
    assert alone == reject


def test_a_number_nested_too_deep_fails_the_day_where_rejects_are_not_tolerated():
    depth = first_rejected_depth("beside a number")
    with pytest.raises(
        DataError, match=r"line at byte [1-9][0-9]* .*nested too deep to read the digits of an identifier"
    ):
        read_nested("beside a number", depth, tolerance="none")


@pytest.mark.parametrize("block_bytes", [1, 1000])
@pytest.mark.parametrize("bad", [b"hello", b"[1]", b'{"event":"e"'])
def test_a_bad_line_that_ends_a_block_is_a_reject_whatever_follows(bad, block_bytes):
    body = b"\n".join([GOOD, bad, *[GOOD] * 20, b""])
    rows, tally = read(body, chunk_bytes=1, block_bytes=block_bytes)
    assert (len(rows), tally.counts["duplicates"], tally.counts["rejected"]) == (1, 20, 1)
    with pytest.raises(DataError, match=f"line at byte {len(GOOD) + 1} "):
        read(body, chunk_bytes=1, block_bytes=block_bytes, tolerance="none")


@pytest.mark.parametrize(("size", "rejoined"), [(1000, 1), (1001, 0)])
def test_a_record_over_two_lines_is_as_long_as_one_may_be(size, rejoined):
    head = b'{"event":"e","properties":{"a":1,'
    tail = b'"b":"%s"}}' % (b"x" * (size - len(head) - 1 - len(b'"b":""}}')))
    assert len(head + b"\n" + tail) == size
    _, tally = read(b"\n".join([GOOD, head, tail, GOOD, b""]), max_record_bytes=1000)
    assert (tally.counts["rejoined"], tally.counts["rejected"]) == (rejoined, 2 - 2 * rejoined)
