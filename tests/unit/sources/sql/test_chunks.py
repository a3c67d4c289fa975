"""Chunks: ranges of a key hold every row once and about equally many rows, whatever the keys are."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.clients.sql.database import SessionLimits
from airflow_provider_connect.clients.sql.sqlite import SQLite
from airflow_provider_connect.sources._sql.chunks import chunk_conditions, chunk_count, find_keys, key_literals

NUMBERS = st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
KEYS = st.one_of(
    st.lists(st.tuples(NUMBERS), unique=True, max_size=60),
    st.lists(st.tuples(TEXTS), unique=True, max_size=60),
    st.lists(st.tuples(st.integers(0, 1), TEXTS, NUMBERS), unique=True, max_size=60),
)


def counts(
    keys: Sequence[tuple[Any, ...]], chunks: int, *, rows: int | None = None, compares_rows: bool
) -> list[list[Any]]:
    """Return the keys that each chunk reads."""
    names = "abc"[: len(keys[0]) if keys else 1]
    with closing(SQLite(sqlite3.connect(":memory:", isolation_level=None), "here", SessionLimits())) as database:
        database.rows(f"CREATE TABLE t ({', '.join(names)}, PRIMARY KEY ({', '.join(names)}))")
        for key in keys:
            database.rows(f"INSERT INTO t VALUES ({', '.join(map(database.literal, key))})")
        quoted = [database.quote(name) for name in names]
        bounds = find_keys(
            database,
            "t",
            quoted,
            values=quoted,
            row_condition="",
            rows=len(keys) if rows is None else rows,
            chunks=chunks,
            compares_rows=compares_rows,
        )
        ends = [key_literals(database, key) for key in bounds]
        wheres = chunk_conditions(quoted, ends, compares_rows=compares_rows)
        return [database.rows(database.select(quoted, "t", where=where)) for where in wheres]


@given(KEYS, st.integers(1, 7), st.one_of(st.none(), st.integers(0, 200)), st.booleans())
def test_every_row_is_in_one_chunk_whatever_the_estimate(
    keys: list[tuple[Any, ...]], chunks: int, rows: int | None, compares_rows: bool
) -> None:
    rows_by_chunk = counts(keys, chunks, rows=rows, compares_rows=compares_rows)
    assert len(rows_by_chunk) <= chunks
    assert sorted(key for chunk in rows_by_chunk for key in chunk) == sorted(keys)


@pytest.mark.parametrize("compares_rows", [True, False])
def test_many_keys_at_one_end_make_no_chunk_large(compares_rows: bool) -> None:
    crowd = [(1, f"{number:03}") for number in range(197)]
    rows_by_chunk = counts([*crowd, (10**12, "x"), (2 * 10**12, "y"), (-5, "z")], 4, compares_rows=compares_rows)
    assert [len(chunk) for chunk in rows_by_chunk] == [50, 50, 50, 50]


def test_rows_added_during_the_read_are_in_a_chunk() -> None:
    assert chunk_conditions(["a"], [("5",)], compares_rows=True) == ["(a <= 5)", "(a > 5)"]


def test_conditions_for_mysql_compare_column_by_column() -> None:
    (_, last) = chunk_conditions(["a", "b"], [("1", "'x'")], compares_rows=False)
    assert last == "(a > 1 OR (a = 1 AND (b > 'x')))"


SIZES = [(0, 1), (99_999, 1), (100_000, 2), (8_000_000, 8), (8_000_001, 9), (10**9, 1_000), (10**12, 1_000)]


@pytest.mark.parametrize(("rows", "chunks"), SIZES)
def test_small_tables_are_not_split_and_large_ones_into_more_chunks_than_are_read_concurrently(
    rows: int, chunks: int
) -> None:
    assert chunk_count(rows, 8) == chunks
