"""Batches for the tests of shapes: every type, NULL, nested, with a dictionary, sliced, empty."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes import Chain

KEY = "0123456789abcdef0123456789abcdef"
CONNECTIONS = {"key": Connection(conn_id="key", password=KEY)}

MOMENTS = st.datetimes(dt.datetime.fromisoformat("0001-01-02"), dt.datetime.fromisoformat("9999-12-30")).map(
    lambda one: one.replace(fold=0)
)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "big": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "decimal": (pa.decimal128(38, 9), st.decimals(-(10**20), 10**20, places=9)),
    "text": (pa.string(), st.text()),
    "large": (pa.large_string(), st.text()),
    "bytes": (pa.binary(), st.binary()),
    "date": (pa.date32(), st.dates()),
    "instant": (pa.timestamp("us", tz="UTC"), MOMENTS.map(lambda one: one.replace(tzinfo=dt.UTC))),
    "elsewhere": (
        pa.timestamp("ms", tz="US/Pacific"),
        MOMENTS.map(lambda one: one.replace(microsecond=0, tzinfo=dt.UTC)),
    ),
    "wall": (pa.timestamp("us"), MOMENTS),
    "time": (pa.time64("us"), st.times()),
    "nothing": (pa.null(), st.none()),
    "coded": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", "é"])),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(-9, 9), max_size=3)),
    "map": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.text(max_size=2), st.integers(-9, 9), max_size=3).map(lambda one: [*one.items()]),
    ),
    "struct": (
        pa.struct([("a", pa.int64()), pa.field("b", pa.struct([("c", pa.string())]))]),
        st.fixed_dictionaries(
            {"a": st.none() | st.integers(-9, 9), "b": st.none() | st.fixed_dictionaries({"c": st.none() | st.text()})}
        ),
    ),
}
"""By name: a type, and its values."""


@st.composite
def batches(draw: st.DrawFn, names: Sequence[str] | None = None, most: int = 6) -> pa.RecordBatch:
    """Return a batch of columns that are called as their types are; sliced, and some with NULL.

    :param names: of all columns; by default any.
    """
    if names is None:
        names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=6, unique=True))
    rows = draw(st.integers(0, most))
    fields, arrays = [], []
    for name in names:
        kind, values = TYPES[name]
        is_nullable = pa.types.is_null(kind) or draw(st.booleans())
        column = draw(st.lists(st.none() | values if is_nullable else values, min_size=rows, max_size=rows))
        fields.append(pa.field(name, kind, is_nullable, {"comment": f"The {name}."}))
        arrays.append(pa.array(column, kind))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata={"record_name": "a.Row"}))
    return batch.slice(draw(st.integers(0, rows)))


def shaped(shapes: Sequence[Any], batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Counter[str]]:
    """Return what a chain makes of a batch, and its counts; what every chain promises is looked at on the way."""
    chain = Chain.of(shapes)
    chain = Chain.of(chain.serialize())
    counts: Counter[str] = Counter()
    bound = chain.bind(batch.schema, CONNECTIONS)
    made = bound(batch, counts)
    made.validate(full=True)
    after = chain.result_schema(batch.schema)
    assert made.schema.equals(after, check_metadata=True)
    for field, column in zip(after, made.columns, strict=True):
        assert field.nullable or not column.null_count, field
    lineage = chain.column_origins(batch.schema)
    assert [*lineage] == after.names
    assert {source for sources in lineage.values() for source in sources} <= {*batch.schema.names}
    empty = bound(batch.slice(0, 0), Counter())
    assert empty.num_rows == 0
    assert empty.schema.equals(after, check_metadata=True)
    assert bound(batch, Counter()).to_pylist().__repr__() == made.to_pylist().__repr__()
    return made, counts


def column(values: Sequence[Any], kind: pa.DataType | None = None, *, nullable: bool = True) -> pa.RecordBatch:
    """Return a batch with one column ``a``."""
    array = pa.array(values, kind)
    return pa.RecordBatch.from_arrays([array], schema=pa.schema([pa.field("a", array.type, nullable)]))


def whole(number: str) -> decimal.Decimal:
    """Return a decimal."""
    return decimal.Decimal(number)
