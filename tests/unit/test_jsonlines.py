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
    one_by_one = [stream[i : i + 1] for i in range(len(stream))]
    assert [block.data for block in blocks(iter(one_by_one), 100, 1)] == [
        "a\u2028b\x85c\r\n".encode(),
        b"d\x0be\n",
    ]


def test_endless_line_names_its_position_and_is_not_gathered():
    def zeros():
        yield b"ok\n"
        while True:
            yield bytes(1000)

    found = blocks(zeros(), 5000)
    assert next(found).data == b"ok\n"
    with pytest.raises(LineTooLongError, match=r"at byte 3 .*max_record_bytes=5000"):
        next(found)
