"""Builds the bytes of values from pieces, which are joined for all rows in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow_provider_connect.values.arrow import lengths_and_elements, true_rows, type_group

if TYPE_CHECKING:
    import pyarrow as pa

Piece: TypeAlias = "bytes | pa.Array"
"""The same bytes for all rows, or a ``large_binary`` array, in which NULL adds nothing."""

Refuse = Callable[[Any, str], None]
"""Takes indices of rows (a list or numpy array) and a reason that completes "rows with …", without a value."""


class RefusedRows:
    """Rows of a batch that cannot be written, by index, each with its first failing column and the reason."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, str]] = {}

    def in_column(self, column: str) -> Refuse:
        """Return a function that refuses rows because of this column."""

        def refuse(rows: Any, reason: str) -> None:
            for row in rows:
                self.rows.setdefault(int(row), (column, reason))

        return refuse

    def read_column(self, batch: pa.RecordBatch, field: pa.Field) -> tuple[pa.Array, Refuse]:
        """Return a field's column, and a function that refuses its rows. Refuses NULL in a NOT NULL column."""
        array, refuse = batch.column(field.name), self.in_column(field.name)
        if not field.nullable and array.null_count:
            refuse(true_rows(array.is_null()), "NULL, though the source's schema says that there is none")
        return array, refuse


def refuse_by_element(refuse: Refuse, lengths: Any) -> Refuse:
    """Return a function that takes indices of list elements and refuses their rows.

    :param lengths: number of elements of each row (numpy).
    """
    import numpy as np

    def refuse_holders(elements: Any, reason: str) -> None:
        if len(elements):
            refuse(np.repeat(np.arange(len(lengths)), lengths)[elements], reason)

    return refuse_holders


def join_pieces(pieces: Sequence[Piece], rows: int) -> pa.Array:
    """Join each row's pieces. No row of the result is NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()
    merged_pieces: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged_pieces and isinstance(merged_pieces[-1], bytes):
            merged_pieces[-1] += piece
        elif len(piece):
            merged_pieces.append(piece)
    if all(isinstance(piece, bytes) for piece in merged_pieces):
        return pa.repeat(pa.scalar(merged_pieces[0] if merged_pieces else b"", kind), rows)
    if len(merged_pieces) == 1 and not merged_pieces[0].null_count:  # type: ignore[union-attr]
        return merged_pieces[0]
    parts = [pa.scalar(piece, kind) if isinstance(piece, bytes) else piece for piece in merged_pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", kind), null_handling="replace", null_replacement="")


def pieces_or_null(array: pa.Array, body: Sequence[Piece], present: bytes, absent: bytes) -> list[Piece]:
    """Return the pieces of a nullable column.

    :param present: bytes before a value.
    :param absent: bytes for NULL.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not array.null_count:
        return [present, *body]
    if array.null_count == len(array):
        return [absent]
    joined_values = join_pieces([present, *body], len(array))
    return [pc.if_else(array.is_valid(), joined_values, pa.scalar(absent, joined_values.type))]


def without_dictionary(array: pa.Array) -> pa.Array:
    """Return a dictionary array as plain values. Nested dictionaries stay."""
    import pyarrow as pa

    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def as_binary(array: pa.Array) -> pa.Array:
    """Return strings or binaries of any layout as ``large_binary``. Copies no bytes."""
    import pyarrow as pa

    if type_group(array.type) == "text":
        array = array.cast(pa.large_string())
    elif pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    return array.cast(pa.large_binary())


def as_utf8(array: pa.Array, refuse: Refuse) -> pa.Array:
    """Return strings as ``large_binary``. Refuses rows that are not UTF-8."""
    import pyarrow as pa

    texts = as_binary(array)
    refuse_not_utf8(texts.view(pa.large_string()), refuse)
    return texts


def refuse_not_utf8(texts: pa.Array, refuse: Refuse) -> None:
    """Refuse strings that are not UTF-8."""
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        values = enumerate(texts.cast(pa.large_binary()).to_pylist())
        bad_rows = [row for row, value in values if value is not None and not _is_utf8(value)]
        refuse(bad_rows, "a text that is not UTF-8")


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_numbers(array: pa.Array) -> Any:
    """Return booleans (as uint8), integers or floats (half floats as float32) in numpy. NULL is 0."""
    import numpy as np
    import pyarrow as pa

    numbers = array.fill_null(pa.scalar(0, pa.int8()).cast(array.type)).to_numpy(zero_copy_only=False)
    if numbers.dtype == np.bool_:
        return numbers.astype(np.uint8)
    return numbers.astype(np.float32) if numbers.dtype == np.float16 else numbers


def data_and_ends(array: pa.Array) -> tuple[Any, Any]:
    """Return the bytes of a ``large_binary`` array, and the position where each row ends (numpy)."""
    import numpy as np

    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    all_bytes = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return all_bytes[ends[0] : ends[-1]], ends[1:] - ends[0]


def binary_array(data: Any, lengths: Any) -> pa.Array:
    """Return a ``large_binary`` array of rows that follow each other in ``data``. Takes numpy arrays."""
    import numpy as np
    import pyarrow as pa

    buffers = [None, pa.py_buffer(_offsets(lengths)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def join_by_row(elements: pa.Array, lengths: Any, separator: bytes) -> pa.Array:
    """Join the elements (``large_binary``) of each row.

    :param lengths: number of elements of each row (numpy).
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    element_lists = pa.LargeListArray.from_arrays(pa.array(_offsets(lengths)), elements)
    return pc.binary_join(element_lists, pa.scalar(separator, pa.large_binary()))


def keys_and_items(array: pa.MapArray, refuse: Refuse) -> tuple[Any, pa.Array, pa.Array, Refuse]:
    """Return each map's number of entries, all keys, all items, and a function that refuses maps by entry index.

    Refuses maps with a duplicate key.
    """
    lengths, entries = lengths_and_elements(array)
    keys, items = entries.flatten()
    refuse_doubled_keys(keys, lengths, refuse)
    return lengths, keys, items, refuse_by_element(refuse, lengths)


def refuse_doubled_keys(keys: pa.Array, lengths: Any, refuse: Refuse) -> None:
    """Refuse maps with a duplicate key."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = np.repeat(np.arange(len(lengths)), lengths)
    table = pa.table({"row": rows, "key": without_dictionary(keys)})
    counts = table.group_by(["row", "key"]).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))["row"].to_numpy()
    refuse(twice, "a map with a key that comes twice")


def _offsets(lengths: Any) -> Any:
    import numpy as np

    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
