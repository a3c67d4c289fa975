"""Rows in CSV become typed batches completely and exactly, or raise an error without a value."""

from __future__ import annotations

import traceback
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.sql.csv_rows import CsvConverter, join_blocks
from airflow_provider_connect.clients.sql.database import ReadColumn
from airflow_provider_connect.errors import ConfigError, DataError


def column(name: str, kind: pa.DataType, **how: Any) -> ReadColumn:
    return ReadColumn(name, f"a {kind}", name, read_type=kind, type=kind)._replace(**how)


BYTES = column("b", pa.string(), type=pa.binary(), form="hex")
COLUMNS = [column("n", pa.int64()), column("t", pa.string()), BYTES, column("after", pa.bool_())]


def item(value: Any) -> str:
    """Write a value as the servers do: NULL as nothing, a text in quotes."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        value = value.hex()
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value).replace("True", "t")


def line(*values: Any) -> bytes:
    return (",".join(map(item, values)) + "\n").encode()


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
texts |= st.sampled_from(['"', "\r\n", "\\.", ",", "NULL", "\ufeff", "\ufeffa", "\ufeff\ufeff"])
rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | texts,
        st.none() | st.binary(max_size=5),
        st.just(value=True),
    )
)


@given(rows, st.integers(1, 60))
def test_rows_in_a_servers_csv_are_read_back(written: list[tuple[Any, ...]], block_bytes: int) -> None:
    converter = CsvConverter(COLUMNS)
    batches = [converter.convert_block(block) for block, _ in join_blocks((line(*row) for row in written), block_bytes)]
    assert [tuple(row.values()) for batch in batches for row in batch.to_pylist()] == written
    assert converter.converted_rows == len(written)


@given(st.lists(st.none() | texts, min_size=1))
def test_a_single_column_keeps_every_row(written: list[str | None]) -> None:
    assert CsvConverter(COLUMNS[1:2]).convert_block(b"".join(map(line, written))).column(0).to_pylist() == written


@given(st.lists(st.text('\ufeffa"', min_size=1, max_size=3), min_size=1), st.integers(1, 20))
def test_a_text_keeps_a_byte_order_mark_wherever_its_block_begins(written: list[str], block_bytes: int) -> None:
    """COPY does not quote the mark, so a block may begin with it. Arrow's reader would skip it as the file's own."""
    lines = [(item(text) if '"' in text else text).encode() + b"\n" for text in written]
    converter = CsvConverter([column("t", pa.string())])
    batches = [converter.convert_block(block) for block, _ in join_blocks(lines, block_bytes)]
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == written


def test_an_error_after_a_byte_order_mark_names_the_same_row() -> None:
    converter = CsvConverter([column("t", pa.string()), column("n", pa.int64(), advice="do this")])
    with pytest.raises(DataError, match=r"'n' .*: row 2 of this read holds"):
        converter.convert_block("\ufeffa,1\nb,x\n".encode())


@given(st.lists(texts, min_size=1))
def test_quotes_may_be_there_only_where_they_are_needed(written: list[str]) -> None:
    """COPY quotes only an empty text, the three special characters and the end mark."""
    lines = [item(text) if set(text) & set(',"\r\n') or text in ("", "\\.") else text for text in written]
    columns = [column("a", pa.string()), column("b", pa.string())]
    block = "".join(f"{line},y\n" for line in lines).encode()
    assert CsvConverter(columns).convert_block(block).column(0).to_pylist() == written


def test_blocks_end_with_whole_rows() -> None:
    assert list(join_blocks([b"aaa", b"b", b"cc"], 5, end=b"\n")) == [(b"aaa\nb\n", 2), (b"cc\n", 1)]
    assert list(join_blocks([b"aaaaaaaaa\n"], 4)) == [(b"aaaaaaaaa\n", 1)]
    assert list(join_blocks([], 4)) == []


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.int32(), "1", "s3cr3t"),
        (pa.int8(), "1", "1000"),
        (pa.decimal128(10, 2), "1.00", "s3cr3t"),
        (pa.decimal128(10, 2), "1.00", "1.2345678"),
        (pa.decimal128(5, 2), "1.00", "123456.00"),
        (pa.date32(), "2026-01-01", "s3cr3t"),
        (pa.timestamp("us"), "2026-01-01 00:00:00", "2026-01-01 00:00:00+01"),
        (pa.timestamp("us", "UTC"), "2026-01-01 00:00:00+00", "2026-01-01 00:00:01"),
        (pa.time64("us"), "00:00:00", "24:00:00"),
        (pa.bool_(), "t", "2"),
        (pa.float64(), "1e3", "s3cr3t"),
    ],
)
def test_an_error_names_column_and_row_and_no_value(kind: pa.DataType, good: str, bad: str) -> None:
    converter = CsvConverter([column("before", pa.string()), column("the one", kind, advice="do this")])
    converter.convert_block(f'"s3cr3t",{good}\n'.encode() * 3)
    block = f'"s3cr3t",{good}\n,\n"s3cr3t",{bad}\n'.encode()
    with pytest.raises(DataError) as raised:
        converter.convert_block(block)
    assert str(raised.value) == (
        f"column 'the one' (a {kind}): row 6 of this read holds a value that is not a valid {kind}: do this"
    )
    assert "invalid" not in "".join(traceback.format_exception(raised.value))  # which is how Arrow begins to quote


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(DataError, match="column 't'"):
        CsvConverter(COLUMNS[1:2]).convert_block(b'"ok"\n"\xff s3cr3t"\n')


@pytest.mark.parametrize("block", [b"1,2\n", b'1,"s3cr3t,,\n', b"1,s3cr3t,,t,t\n"])
def test_rows_with_other_columns_are_refused(block: bytes) -> None:
    with pytest.raises(DataError, match="do not have the requested columns") as raised:
        CsvConverter(COLUMNS).convert_block(block)
    assert "s3cr3t" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("digits", ["0", "0g", "é"])
def test_a_text_that_is_not_hexadecimal_is_refused(digits: str) -> None:
    with pytest.raises(DataError, match="column 'b'"):
        CsvConverter([BYTES]).convert_block(f'"00"\n"{digits}"\n'.encode())


def test_null_in_a_not_null_column_is_refused() -> None:
    with pytest.raises(DataError, match="column 'n'"):
        CsvConverter([column("n", pa.int64(), is_nullable=False)]).convert_block(b"1\n\n")


def test_a_read_without_columns_is_refused() -> None:
    with pytest.raises(ConfigError, match="no column"):
        CsvConverter([])
