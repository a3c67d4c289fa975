import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.jsonlines import LineTooLongError, blocks


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"x", b"\n"))), st.integers(1, 30))
def test_blocks_are_the_stream_in_whole_lines(chunks, block_bytes):
    stream = b"".join(chunks)
    position = 0
    found = list(blocks(iter(chunks), 1000, block_bytes))
    for block in found[:-1]:
        assert block.data.endswith(b"\n")
    for block in found:
        assert block.position == position
        assert block.data
        position += len(block.data)
    assert b"".join(block.data for block in found) == stream


def test_only_newline_cuts():
    stream = "a\u2028b\x85c\r\nd\x0be\n".encode()
    assert [block.data for block in blocks(iter([stream[:7], stream[7:]]), 100, 1)] == [
        stream[: stream.index(b"\n") + 1],
        stream[stream.index(b"\n") + 1 :],
    ] or [block.data for block in blocks(iter([stream]), 100, 1)] == [stream]


def test_endless_line_names_its_position_and_is_not_gathered():
    def zeros():
        yield b"ok\n"
        while True:
            yield bytes(1000)

    with pytest.raises(LineTooLongError, match="at byte 3 .*max_record_bytes=5000"):
        list(blocks(zeros(), 5000))
