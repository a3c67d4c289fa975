"""Arrow columns of any type, drawn by hypothesis, for tests of converters."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.lists(TEXT.filter(lambda name: name not in ("", "day")), min_size=1, max_size=4, unique=True)

_EARLY, _LATE = dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)  # noqa: DTZ001 - a zone is added by the type
_NEAR, _FAR = dt.datetime(1680, 1, 1), dt.datetime(2260, 1, 1)  # noqa: DTZ001 - what nanoseconds can hold


def _integers(bits: int, *, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, high)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    top = 10**digits - 1
    return st.integers(-top, top).map(lambda unscaled: Decimal((int(unscaled < 0), _digits(unscaled), -scale)))


def _digits(number: int) -> tuple[int, ...]:
    return tuple(int(digit) for digit in str(abs(number)))


def _times(unit: str) -> st.SearchStrategy[dt.time]:
    coarse = {"s": 10**6, "ms": 1000}.get(unit, 1)
    return st.times().map(lambda time: time.replace(microsecond=time.microsecond // coarse * coarse % 10**6))


def _instants(unit: str) -> st.SearchStrategy[dt.datetime]:
    coarse = {"s": 10**6, "ms": 1000}.get(unit, 1)
    found = st.datetimes(_NEAR, _FAR) if unit == "ns" else st.datetimes(_EARLY, _LATE)
    return found.map(lambda time: time.replace(microsecond=time.microsecond // coarse * coarse % 10**6))


def _zoned(found: st.SearchStrategy[dt.datetime]) -> st.SearchStrategy[dt.datetime]:
    return found.map(lambda time: time.replace(tzinfo=dt.UTC))


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    *((getattr(pa, f"int{bits}")(), _integers(bits, signed=True)) for bits in (8, 16, 32, 64)),
    *((getattr(pa, f"uint{bits}")(), _integers(bits, signed=False)) for bits in (8, 16, 32, 64)),
    (pa.float16(), st.floats(width=16, allow_nan=False, allow_infinity=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.decimal128(10, 3), _decimals(10, 3)),
    (pa.decimal128(38, 38), _decimals(38, 38)),
    (pa.decimal256(60, 5), _decimals(60, 5)),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.dictionary(pa.int8(), pa.string()), TEXT),
    (pa.binary(), st.binary(max_size=9)),
    (pa.large_binary(), st.binary(max_size=9)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("s"), _times("s")),
    (pa.time32("ms"), _times("ms")),
    (pa.time64("us"), _times("us")),
    (pa.time64("ns"), _times("us")),
    *((pa.timestamp(unit), _instants(unit)) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit, "UTC"), _zoned(_instants(unit))) for unit in ("s", "ms", "us", "ns")),
    (pa.timestamp("us", "US/Pacific"), _zoned(_instants("us"))),
]
NOTHING = (pa.null(), st.none())
"""A type that is supported only at the top: nested ones are refused."""

Kind = tuple[pa.DataType, st.SearchStrategy[Any]]


def _nullable(kind: Kind) -> st.SearchStrategy[Any]:
    return st.none() | kind[1]


def _list(kind: Kind) -> list[Kind]:
    values = st.lists(_nullable(kind), max_size=3)
    two = st.lists(_nullable(kind), min_size=2, max_size=2)
    return [(pa.list_(kind[0]), values), (pa.large_list(kind[0]), values), (pa.list_(kind[0], 2), two)]


def _map(kind: Kind) -> list[Kind]:
    return [
        (pa.map_(key_type, kind[0]), st.dictionaries(keys, _nullable(kind), max_size=3).map(lambda d: list(d.items())))
        for key_type, keys in ((pa.string(), TEXT), (pa.int32(), _integers(32, signed=True)))
    ]


@st.composite
def _struct(draw: st.DrawFn, kinds: st.SearchStrategy[Kind], names: st.SearchStrategy[list[str]]) -> Kind:
    parts = {name: draw(kinds) for name in draw(names)}
    struct = pa.struct([pa.field(name, kind[0]) for name, kind in parts.items()])
    return struct, st.fixed_dictionaries({name: _nullable(kind) for name, kind in parts.items()})


def python_time(value: Any) -> Any:
    """Return a time as Python's type: if pandas is loaded, Arrow returns nanoseconds as pandas' type."""
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def kinds(names: st.SearchStrategy[list[str]] = NAMES) -> st.SearchStrategy[Kind]:
    """Draw a type and a strategy for its values: NULL only inside them, never at the top."""
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.one_of(
            inner.flatmap(lambda kind: st.sampled_from(_list(kind))),
            inner.flatmap(lambda kind: st.sampled_from(_map(kind))),
            _struct(inner, names),
        ),
        max_leaves=4,
    )


@st.composite
def batches(draw: st.DrawFn, names: st.SearchStrategy[list[str]] = NAMES) -> pa.RecordBatch:
    """Draw a batch, sometimes a slice of a larger one: mistakes hide where offsets are not 0."""
    rows = draw(st.integers(0, 5))
    arrays, fields = [], []
    for name in draw(names):
        kind, values = draw(kinds(names) | st.just(NOTHING))
        required = draw(st.booleans()) and not pa.types.is_null(kind)
        entry = values if required else st.none() | values
        arrays.append(pa.array(draw(st.lists(entry, min_size=rows, max_size=rows)), kind))
        fields.append(pa.field(name, kind, nullable=not required))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return batch.slice(draw(st.integers(0, rows)))
