"""Snapshots by chunk: a retry splits at the keys of the earlier try, and the stage cannot make it do anything else."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.capabilities.poller import Resumes
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import resumes
from airflow_provider_connect.source import ALONE, InputPartition, PollContext, Poller
from airflow_provider_connect.sources._sql import chunks
from airflow_provider_connect.sources._sql.chunks import key_from_json, key_to_json
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 10, 5))
VALUES = st.one_of(
    st.integers(), st.decimals(), st.dates(), st.uuids(), st.text(), st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(VALUES, min_size=1, max_size=3))
def test_a_key_in_a_plan_is_parsed_unchanged(values: list[Any]) -> None:
    key = tuple(values)
    parsed = key_from_json(json.loads(json.dumps(key_to_json(key))), len(key))
    assert list(map(repr, parsed)) == list(map(repr, key))


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        "int",
        [["int", "1"]],
        [["int", "1"], ["int", "2"], ["int", "3"]],
        [["int", "1"], ["sql", "2 OR 1 = 1"]],
        [["int", "1"], ["int", "2 OR 1 = 1"]],
        [["int", "1"], ["int", 2]],
        [["int", "1"], ["int", "02"]],
        [["int", "1"], ["Decimal", "x"]],
        [["int", "1"], ["date", "yesterday"]],
        [["int", "1"], ["datetime", "yesterday"]],
        [["int", "1"], ["bool", "1"]],
        [["int", "1"], ["bytes", "0"]],
        [["int", "1", "2"], ["int", "2"]],
    ],
)
def test_a_plan_without_a_valid_key_is_refused(found: Any) -> None:
    with pytest.raises(ValueError, match="not a key"):
        key_from_json(found, 2)


def test_a_key_of_a_type_that_a_plan_cannot_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="a table cannot be split at a key of type time"):
        key_to_json((dt.time(1),))
    assert key_to_json((uuid.UUID(int=1), Decimal("1.50"))) == [["UUID", str(uuid.UUID(int=1))], ["Decimal", "1.50"]]


class Shop:
    """A SQLite file with a table of two key columns and 100 rows, and its pollers."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.run("CREATE TABLE t (page integer NOT NULL, line text NOT NULL, n integer, PRIMARY KEY (page, line))")
        # Nine of ten rows have the same page.
        rows = [f"({7 if n % 10 else n * n}, 'li''ne {n:03}', {n})" for n in range(100)]
        self.run(f"INSERT INTO t VALUES {', '.join(rows)}")

    def run(self, statement: str) -> None:
        with closing(sqlite3.connect(self.file)) as database, database:
            database.execute(statement)

    def open(self, context: PollContext = ALONE, **options: Any) -> Any:
        source = SqlSource(**{"conn_id": "c", "table": "t", "snapshot": "replace", "consistency": "chunk"} | options)
        return source.open(Connection(conn_id="c", conn_type="sqlite", host=str(self.file)), context)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(chunks, "MIN_CHUNK_ROWS", 5)
    monkeypatch.setattr(chunks, "MAX_CHUNK_ROWS", 10)
    return Shop(tmp_path / "shop.db")


@pytest.fixture
def plan(shop: Shop) -> list[InputPartition]:
    """What an earlier try left, as it comes out of a stage."""
    with shop.open() as poller:
        return [InputPartition.model_validate_json(part.model_dump_json()) for part in poller.plan([DAY])]


@pytest.fixture
def poller(shop: Shop) -> Iterator[Poller]:
    """The next try's."""
    with shop.open() as opened:
        yield opened


def polled(poller: Poller, parts: list[InputPartition]) -> list[int]:
    return [n for part in parts for _, batch in poller.poll(part, Tally((DAY,))) for n in batch["n"].to_pylist()]


def test_a_retry_reads_the_same_chunks_after_rows_were_added_and_deleted(
    shop: Shop, plan: list[InputPartition], poller: Poller
) -> None:
    before = polled(poller, plan[:6])
    shop.run("DELETE FROM t WHERE n % 7 = 0")
    shop.run("INSERT INTO t VALUES (-1, '', 1001), (7, 'li''ne 0000', 1002), (10000000, '', 1003)")
    assert poller.resume(DAY, plan) == plan
    assert poller.plan([DAY]) != plan, "it would be cut elsewhere by now"
    after = polled(poller, plan[6:])
    assert (len(plan), len(before)) == (10, 60)
    rows = before + after
    assert len(rows) == len(set(rows)), "a key comes twice"
    assert {n for n in range(100) if n % 7} <= set(rows), "a row that nobody touched is lost"
    assert set(rows) - set(range(100)) == {1003}, "of what came, only what came to a chunk that was read later"


def forge_where(plan: list[InputPartition]) -> None:
    plan[3].params["where"] = "1 = 1 UNION SELECT password FROM users"


def forge_a_key(plan: list[InputPartition]) -> None:
    plan[3].params["upto"] = [["int", "7"], ["sql", "x' OR 1 = 1"]]


def forge_columns(plan: list[InputPartition]) -> None:
    plan[3].params["columns"][2] = ["other", "integer", "(SELECT password FROM users)", True, False]


def lose_a_part(plan: list[InputPartition]) -> None:
    del plan[3]


def move_a_bound(plan: list[InputPartition]) -> None:
    plan[3].params["upto"] = plan[4].params["upto"]


@pytest.mark.parametrize("forge", [forge_where, forge_a_key, forge_columns, lose_a_part, move_a_bound])
def test_sql_in_a_plan_is_never_run(plan: list[InputPartition], poller: Poller, forge: Any) -> None:
    forge(plan)
    assert poller.resume(DAY, plan) != plan


@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE t ADD COLUMN more text", "ALTER TABLE t RENAME COLUMN n TO m", "ALTER TABLE t DROP COLUMN n"],
)
def test_the_plan_of_another_table_is_not_resumed(
    shop: Shop, plan: list[InputPartition], poller: Poller, change: str
) -> None:
    shop.run(change)
    assert poller.resume(DAY, plan) != plan


def test_a_shared_snapshot_is_not_resumed(shop: Shop) -> None:
    with shop.open(consistency="snapshot") as poller:
        assert not resumes(poller)
        assert "consistency='chunk'" in poller.begins_anew
        assert len(poller.plan([DAY])) == 1
    with shop.open(snapshot=None, consistency="snapshot", mode="incrementing", incrementing_column="n") as poller:
        assert not isinstance(poller, Resumes)
        assert poller.partitions_at_once == 4


@pytest.mark.parametrize("asked", [None, 1, 3])
def test_there_may_be_more_chunks_than_are_read_concurrently(shop: Shop, asked: int | None) -> None:
    with shop.open(parallel_chunks=asked) as poller:
        assert poller.partitions_at_once == (asked or 4)
        assert len(poller.plan([DAY])) == 10
    with shop.open(PollContext(is_closed_before_polls=True), parallel_chunks=asked) as poller:
        assert len(poller.plan([DAY])) == 10, "nothing has to be held for them"


def test_a_table_without_a_key_is_one_chunk(shop: Shop) -> None:
    shop.run("CREATE TABLE log (line text)")
    shop.run("INSERT INTO log SELECT line FROM t")
    with shop.open(table="log") as poller:
        (part,) = poller.plan([DAY])
        assert len(list(poller.poll(part, Tally((DAY,))))) == 1
