import gzip
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.http.inflate import OUTPUT_BYTES, gunzip
from airflow_provider_connect.errors import RetriableError

TEXT = b"".join(b"%d line of text\n" % i for i in range(2000))
WHOLE = gzip.compress(TEXT)


def cut(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
@pytest.mark.parametrize("members", [1, 3])
def test_reads_all_members_however_cut(size, members):
    assert b"".join(gunzip(cut(WHOLE * members, size))) == TEXT * members


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=5), st.integers(1, 50))
def test_gzip_members_of_any_content_are_decoded(members, size):
    stream = b"".join(map(gzip.compress, members))
    assert b"".join(gunzip(cut(stream, size))) == b"".join(members)


@pytest.mark.parametrize("size", [1, 64, 1 << 20])
@pytest.mark.parametrize(
    "damaged",
    [
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:-8],
        WHOLE[:-1],
        WHOLE[:1],
        WHOLE + WHOLE[:-3],
        WHOLE[:-5] + bytes([WHOLE[-5] ^ 1]) + WHOLE[-4:],
        WHOLE[:-1] + bytes([WHOLE[-1] ^ 1]),
        WHOLE + b"garbage",
        WHOLE + b"\0",
        b"<html>login</html>",
        bytes(100),
    ],
    ids=[
        "half",
        "no trailer",
        "one byte short",
        "one byte",
        "second cut",
        "crc",
        "length",
        "garbage",
        "nul",
        "html",
        "0",
    ],
)
def test_damage_is_retriable(damaged, size):
    with pytest.raises(RetriableError):
        list(gunzip(cut(damaged, size)))


def test_every_bit_of_data_and_trailer_counts():
    small = gzip.compress(random.Random(1).randbytes(40), mtime=0)
    unseen = []
    for bit in range(11 * 8, len(small) * 8):  # before: the header, and padding of the stored block
        flipped = bytearray(small)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            list(gunzip([bytes(flipped)]))
        except RetriableError:
            continue
        unseen.append(bit)
    assert unseen == []


@pytest.mark.parametrize("chunks", [[], [b"", b""]])
def test_an_answer_said_to_be_gzip_has_at_least_a_byte(chunks):
    with pytest.raises(RetriableError, match="has no bytes: it was cut"):
        list(gunzip(chunks))


def test_output_is_bounded_for_a_bomb():
    sizes = [len(piece) for piece in gunzip([gzip.compress(bytes(10 * OUTPUT_BYTES + 5))])]
    assert max(sizes) <= OUTPUT_BYTES
    assert sum(sizes) == 10 * OUTPUT_BYTES + 5
