"""Rows are cut out of what has arrived exactly as they were sent; whatever is no whole row is left where it is."""

from __future__ import annotations

import struct

import pyarrow as pa
import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.sql.database import ReadColumn
from airflow_provider_connect.clients.sql.mysql.session import MySQL
from airflow_provider_connect.clients.sql.mysql.stream import whole_rows
from airflow_provider_connect.errors import RetriableError

MOST = 0xFFFFFF


def packet(payload: bytes, number: int) -> bytes:
    return struct.pack("<I", len(payload) | number << 24) + payload


def row(text: bytes) -> bytes:
    """Write a row of one text as the protocol does: a length of one, two or three bytes, then the text."""
    if len(text) < 0xFB:
        return bytes([len(text)]) + text
    if len(text) < 1 << 16:
        return b"\xfc" + struct.pack("<H", len(text)) + text
    return b"\xfd" + struct.pack("<I", len(text))[:3] + text


TEXTS = st.lists(st.binary(max_size=300) | st.sampled_from([b"x" * size for size in (250, 251, 65_535, 65_536)]))


@given(TEXTS, st.integers(0, 255), st.integers(0, 1_000_000))
def test_whole_rows_are_taken_and_the_rest_is_left(texts: list[bytes], first: int, cut: int) -> None:
    packets = [packet(row(text), (first + at) % 256) for at, text in enumerate(texts)]
    sent = b"".join(packets)
    arrived = sent[: cut % (len(sent) + 1)]
    rows, size = whole_rows(arrived, first)
    assert rows == texts[: len(rows)]
    assert sent[:size] == b"".join(packets[: len(rows)])
    if len(rows) < len(texts):
        assert len(arrived) < size + len(packets[len(rows)])


@pytest.mark.parametrize(
    "payload",
    [
        b"\xfb",
        b"\xfe\x00\x00\x02\x00",
        b"\xff\x15\x04#28000Access denied",
        b"\xfe" + struct.pack("<Q", 3) + b"abc",
        b"",
    ],
    ids=["null", "end", "error", "a length of eight bytes", "nothing"],
)
def test_what_is_no_row_of_one_text_is_left_to_pymysql(payload: bytes) -> None:
    sent = packet(row(b"one"), 255) + packet(payload, 0) + packet(row(b"three"), 1)
    assert whole_rows(sent, 255) == ([b"one"], len(packet(row(b"one"), 0)))


def test_a_row_that_goes_on_in_the_next_packet_is_left() -> None:
    sent = packet(b"\xfd" + b"\0" * (MOST - 1), 7)
    assert whole_rows(sent, 7) == ([], 0)


def test_a_packet_with_another_number_is_left() -> None:
    assert whole_rows(packet(row(b"one"), 3) + packet(row(b"two"), 5), 3) == ([b"one"], 8)


def test_a_session_that_is_closed_says_so_to_who_reads() -> None:
    session = MySQL(lambda: pymysql.Connection(defer_connect=True), "db", "")
    column = ReadColumn("n", "int", "n", pa.int64(), pa.int64())
    with pytest.raises(RetriableError, match="db: reading rows: the session is closed"):
        next(session.read([column], "t"))
