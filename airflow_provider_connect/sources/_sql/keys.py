"""Keys of rows: 32 hex digits, the same for the same row in every run, way and version.

A key is XXH3-128 over the key's columns in order, joined by 0xFF. Each column is written in UTF-8: a letter for its
class, then the value in the form of that class. The class depends on the database's type alone, not on ``decimals`` or
the Arrow type:

====== ================================== =====================================================
letter class                              form of a value
====== ================================== =====================================================
n      whole and decimal numbers          digits, with a sign if negative, without trailing
                                          zeros after the point: 1, 1.00 and 1.0 are ``1``
t      texts, enums and other types read  unchanged
       as text
u      UUIDs                              text in lower case
b      booleans                           ``true``, ``false``
d      dates                              days since 1970-01-01
i      instants                           microseconds since 1970-01-01 in UTC
w      timestamps without a zone          microseconds since 1970-01-01 on that clock
c      times of day                       microseconds since midnight
x      bytes                              hexadecimal digits, lower case
====== ================================== =====================================================

So 1 and '1' differ. NULLs and floating-point numbers are refused. A golden file in the tests fixes this format: a
change would change the keys in every merged table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.clients.sql.database import Index, SqlColumn
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.polling.keys import record_keys
from airflow_provider_connect.values.numbers import plain_text

if TYPE_CHECKING:
    import pyarrow as pa

KeyClass = Literal["n", "t", "u", "b", "d", "i", "w", "c", "x"]
_DECIMAL_PREFIXES = ("numeric", "decimal", "dec(", "fixed(")


def key_class(column: SqlColumn, arrow_type: pa.DataType) -> KeyClass:  # noqa: PLR0911  # a line for each class
    """Return the class letter of a key column.

    :param arrow_type: of the read values.
    :raises ConfigError: such values cannot identify a row.
    """
    from pyarrow import types

    is_decimal = column.base.lower().startswith(_DECIMAL_PREFIXES)
    if types.is_floating(arrow_type) or types.is_nested(arrow_type):
        advice = ": read it with another decimals=" if is_decimal else ""
        raise ConfigError(f"key: column {column.name!r} of type {column.type} cannot identify a row{advice}")
    if is_decimal or types.is_integer(arrow_type) or types.is_decimal(arrow_type):
        return "n"
    if types.is_boolean(arrow_type):
        return "b"
    if types.is_date(arrow_type):
        return "d"
    if types.is_timestamp(arrow_type):
        return "w" if arrow_type.tz is None else "i"
    if types.is_time(arrow_type):
        return "c"
    if types.is_binary(arrow_type) or types.is_large_binary(arrow_type) or types.is_fixed_size_binary(arrow_type):
        return "x"
    return "u" if column.base.lower() == "uuid" else "t"


def columns_before_prefix(primary: tuple[str, ...], indexes: Sequence[Index]) -> tuple[str, ...]:
    """Return the key that this package's versions up to 1.0.0rc1 used for a MySQL table.

    These are the primary key's columns before the first one of which the index has only a prefix.
    """
    indexed_keys = (index.columns for index in indexes if index.name == "PRIMARY" and not index.is_unique)
    return next((columns for columns in indexed_keys if columns == primary[: len(columns)]), primary)


def key_bytes(names: Sequence[str], classes: Sequence[KeyClass], columns: Sequence[pa.Array]) -> bytes:
    """Return the rows' keys as concatenated 16-byte digests.

    :param names: column names for messages.
    :raises DataError: a column of the key is NULL.
    """
    return record_keys("", [_encode_column(*column) for column in zip(names, classes, columns, strict=True)])


def _encode_column(name: str, letter: KeyClass, column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise DataError(f"{column.null_count} rows have no value in {name!r}, which is part of the key")
    return pc.binary_join_element_wise(pa.scalar(letter), _value_texts(letter, column), pa.scalar(""))


def _value_texts(letter: KeyClass, column: pa.Array) -> pa.Array:  # noqa: PLR0911  # a line for each class
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if letter == "n":
        return column.cast(pa.string()) if pa.types.is_integer(kind) else _number_texts(column)
    if letter == "u":
        return pc.utf8_lower(column)
    if letter == "x":
        return pa.array([value.hex() for value in column.to_pylist()], pa.string())
    if letter == "d":
        return column.cast(pa.date32()).view(pa.int32()).cast(pa.string())
    if letter in ("i", "w"):
        return column.cast(pa.timestamp("us", kind.tz)).view(pa.int64()).cast(pa.string())
    if letter == "c":
        return column.cast(pa.time64("us")).view(pa.int64()).cast(pa.string())
    return column.cast(pa.string())


def _number_texts(column: pa.Array) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = plain_text(column) if pa.types.is_decimal(column.type) else column.cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.([0-9]*[1-9])?0*$", r"\1.\2")
    texts = pc.replace_substring_regex(texts, r"\.$", "")
    return pc.replace_substring_regex(texts, r"^-0$", "0")
