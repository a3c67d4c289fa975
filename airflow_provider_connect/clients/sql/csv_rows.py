"""Converts a server's CSV rows to typed Arrow batches, exactly or not at all.

NULL is an empty item, an empty text ``""``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from airflow_provider_connect.clients.sql.database import ReadColumn
from airflow_provider_connect.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

_JOINED_ROWS = 16
_ARROW_FAILURE = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error")
"""Beginning of Arrow's message about an unconvertible value (pyarrow 26)."""
_BYTE_ORDER_MARK = "\ufeff".encode()


def join_blocks(
    rows: Iterable[bytes | bytearray | memoryview], block_bytes: int, end: bytes = b""
) -> Iterator[tuple[bytearray, int]]:
    """Join pieces of CSV to blocks of about ``block_bytes`` bytes. Yields blocks with numbers of pieces.

    :param end: appended to each piece.
    """
    block, parts, row_iterator, batch_rows = bytearray(), 0, iter(rows), 1
    while next_rows := list(islice(row_iterator, batch_rows)):
        block += end.join(next_rows)
        block += end
        parts += len(next_rows)
        # Short rows are joined many at a time to save time, long rows one by one to limit the block's size.
        batch_rows = _JOINED_ROWS if len(block) * _JOINED_ROWS * 4 < parts * block_bytes else 1
        if len(block) >= block_bytes:
            yield block, parts
            block, parts = bytearray(), 0
    if parts:
        yield block, parts


class CsvConverter:
    """Converter of one read's blocks to batches, in order.

    :param columns: in the order of the CSV items.
    :raises ConfigError: there are no columns.
    """

    def __init__(self, columns: Sequence[ReadColumn]) -> None:
        import pyarrow as pa

        if not columns:
            raise ConfigError("there are no columns to read: choose at least one")
        self._columns = columns
        self._schema = pa.schema([column.field for column in columns])
        self.converted_rows = 0
        """Number of rows converted so far."""

    def convert_block(self, block: bytes | bytearray) -> pa.RecordBatch:
        """Convert a block.

        :raises DataError: with column and row of a value that does not fit.
        """
        import pyarrow as pa

        try:
            table = _parse_block(block, [column.read_type for column in self._columns])
        except pa.ArrowInvalid as error:
            raise self._conversion_error(str(error), block) from None
        arrays = [
            self._finish_column(column, values.combine_chunks())
            for column, values in zip(self._columns, table.columns, strict=True)
        ]
        self.converted_rows += table.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _finish_column(self, column: ReadColumn, values: pa.Array) -> pa.Array:
        if values.null_count and not column.is_nullable:
            raise DataError(f"{column.title} holds NULL, but the database declares it NOT NULL")
        if column.form == "hex":
            return _decode_hex(values, column)
        # MySQL writes instants without a zone. They are in UTC, every session's zone.
        return values if values.type == column.type else values.cast(column.type)

    def _conversion_error(self, arrow_message: str, block: bytes | bytearray) -> DataError:
        match = _ARROW_FAILURE.match(arrow_message)
        position = int(match[1]) if match else self._failed_position(block)
        if position is None:
            return DataError(
                f"the rows after row {self.converted_rows:,} of this read do not have the requested columns: "
                "the table may have changed during the read"
            )
        column = self._columns[position]
        row = (
            int(match[2])
            if match and match[2]
            else _first_bad_row(block, position, [c.read_type for c in self._columns])
        )
        row_label = f"row {self.converted_rows + row:,}" if row else f"a row after row {self.converted_rows:,}"
        return DataError(
            f"{column.title}: {row_label} of this read holds a value that is not a valid {column.type}"
            + (f": {column.advice}" if column.advice else "")
        )

    def _failed_position(self, block: bytes | bytearray) -> int | None:
        import pyarrow as pa

        types = [column.read_type for column in self._columns]
        for position in range(len(types)):
            try:
                _parse_block(block, types, only=position)
            except pa.ArrowInvalid as error:
                if not str(error).startswith("CSV parse error"):
                    return position
        return None


def _parse_block(block: bytes | bytearray, types: Sequence[pa.DataType], only: int | None = None) -> pa.Table:
    """Parse a block into all columns, or only one. Raises ArrowInvalid, which quotes values."""
    import pyarrow as pa
    from pyarrow import csv

    names = [str(position) for position in range(len(types))]
    if block.startswith(_BYTE_ORDER_MARK):
        # The mark belongs to the first value, which COPY does not quote. Arrow's reader skips one mark, as in a file.
        block = _BYTE_ORDER_MARK + block
    return csv.read_csv(
        pa.BufferReader(block),
        read_options=csv.ReadOptions(column_names=names, block_size=len(block) + 1, use_threads=False),
        # NULL in a single column is an empty line.
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            include_columns=None if only is None else [names[only]],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t", "1"],
            false_values=["f", "0"],
        ),
    )


def _first_bad_row(block: bytes | bytearray, position: int, types: Sequence[pa.DataType]) -> int:
    import pyarrow as pa

    texts = _parse_block(block, [pa.string() if n == position else kind for n, kind in enumerate(types)], only=position)
    values = texts.column(0).combine_chunks()
    last_good, first_bad = 0, len(values) + 1
    while first_bad - last_good > 1:
        middle = (last_good + first_bad) // 2
        try:
            values[:middle].cast(types[position])
            last_good = middle
        except pa.ArrowInvalid:
            first_bad = middle
    return first_bad if first_bad <= len(values) else 0


def _decode_hex(digits: pa.Array, column: ReadColumn) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    _, offsets, data = digits.buffers()
    ends = np.frombuffer(offsets, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    text = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    starts = ends - ends[0]
    if (starts % 2).any():
        raise DataError(f"{column.title} holds an odd number of hexadecimal digits")
    try:
        decoded = binascii.unhexlify(text)
    except binascii.Error:
        raise DataError(f"{column.title} holds characters that are not hexadecimal digits") from None
    byte_offsets = pa.py_buffer((starts // 2).astype(np.int32))
    valid = pa.array(digits.is_valid()).buffers()[1] if digits.null_count else None
    return pa.Array.from_buffers(
        pa.binary(), len(digits), [valid, byte_offsets, pa.py_buffer(decoded)], digits.null_count
    )
