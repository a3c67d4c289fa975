import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.polling.jsonlines import Block, LineTooLongError, blocks, slices


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


LIMIT = 30
streams = st.lists(st.integers(0, LIMIT + 3), max_size=12).map(lambda sizes: [b"x" * size for size in sizes])


def gathered(chunks, block_bytes):
    found = []
    try:
        for block in blocks(iter(chunks), LIMIT, block_bytes):
            found.append(block)  # what came before the error counts
    except LineTooLongError as error:
        return found, str(error)
    return found, ""


@given(streams, st.booleans(), st.integers(1, 80), st.integers(1, 100))
def test_a_line_of_the_limit_passes_and_one_byte_more_does_not_however_it_is_cut(lines, ends, chunk, block_bytes):
    stream = b"\n".join(lines) + b"\n" * ends
    chunks = [stream[i : i + chunk] for i in range(0, len(stream), chunk)]
    too_long = [at for at, line in enumerate(stream.split(b"\n")) if len(line) > LIMIT]
    start = sum(len(line) + 1 for line in lines[: too_long[0]]) if too_long else len(stream)
    found, error = gathered(chunks, block_bytes)
    if too_long:
        assert f"at byte {start} " in error
    else:
        assert error == ""
    assert b"".join(block.data for block in found) == stream[:start], "what stands before it is read"


@pytest.mark.parametrize("chunk", [1, 7, 1000, 10_000])
@pytest.mark.parametrize(("size", "passes"), [(999, True), (1000, True), (1001, False)])
def test_the_limit_of_a_line(chunk, size, passes):
    stream = b"a\n" + b"x" * size + b"\n" + b"b\n" * 2000
    chunks = [stream[i : i + chunk] for i in range(0, len(stream), chunk)]
    if passes:
        assert b"".join(block.data for block in blocks(iter(chunks), 1000, 500)) == stream
    else:
        with pytest.raises(LineTooLongError, match="at byte 2 "):
            list(blocks(iter(chunks), 1000, 500))


@given(st.lists(st.integers(0, 60)), st.integers(0, 200_000))
def test_slices_are_the_block_in_whole_lines(sizes, newlines):
    data = b"\n".join(b"x" * size for size in sizes) + b"\n" * newlines or b"x"
    found = list(slices(Block(7, data)))
    assert b"".join(part.data for part in found) == data
    assert [part.position for part in found] == [7 + sum(len(p.data) for p in found[:i]) for i in range(len(found))]
    assert all(part.data.endswith(b"\n") for part in found[:-1])
    assert all(len(part.data) <= 1 << 16 for part in found)


def test_chunks_of_a_byte_each_are_not_kept_one_by_one():
    tracemalloc.start()
    size = sum(len(block.data) for block in blocks((b"xy" for _ in range(100_000)), 1 << 20))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 200_000
    assert peak < 2_000_000
