"""The rule of a merge: validated options, fitting columns, and tables that were written by another rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import ValidationError

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks.delta import DeltaSink
from tests.equipment.delta.merging import DAYS, ROWS, MergeLab

MERGE = {"write_mode": "merge", "key": ("id",)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write_mode": "merge"}, "needs key="),
        ({"key": ("id",), "newest_by": "x"}, "key, newest_by: only with write_mode='merge'"),
        ({"delete_where": "x"}, "delete_where: only with write_mode='merge'"),
        ({**MERGE, "path": "/data/{event}"}, "a table for each value needs write_mode='replace'"),
        ({**MERGE, "deletes": "soft"}, "deletes='soft' needs write_mode='replace'"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValidationError, ConfigError), match=message):
        DeltaSink(**({"path": "/data/t"} | options))


def test_a_merge_replaces_no_day_and_knows_rows_by_their_key() -> None:
    sink = DeltaSink(path="/data/t", **MERGE)
    assert [sink.replaces(kind) for kind in ("day", "increment", "snapshot")] == [False, False, True]
    assert sink.identifies_by_key("day")
    assert [len(sink.kind_problems(kind)) for kind in ("day", "increment", "snapshot")] == [0, 1, 0]
    assert "newest_by" in sink.kind_problems("increment")[0]
    assert DeltaSink(path="/data/t", newest_by="at", **MERGE).kind_problems("increment") == []
    plain = DeltaSink(path="/data/t")
    assert plain.replaces("day")
    assert not plain.identifies_by_key("day")


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({"key": ("nothing",)}, ["key names 'nothing', which the source lacks. It has gone, id, value, version"]),
        ({"key": ("version",)}, ["key names 'version', which is double. Name a column that can be compared"]),
        ({"newest_by": "list"}, ["newest_by names 'list', which is list<item: int64>"]),
        ({"delete_where": "id"}, ["delete_where names 'id', which is int64. Name a boolean column"]),
        ({"key": ("day",)}, ["key names 'day', which the source lacks"]),
        ({"key": ("x",), "newest_by": "y"}, ["key names 'x'", "newest_by names 'y'"]),
    ],
)
def test_columns_that_do_not_fit_are_found_before_the_poll(
    tmp_path: Path, options: dict[str, Any], problems: list[str]
) -> None:
    schema = ROWS.append(pa.field("list", pa.list_(pa.int64()))) if "list" in options.values() else ROWS
    found = MergeLab(tmp_path / "t", schema, **options).preflight(schema)
    assert len(found) == len(problems)
    assert all(problem in text for problem, text in zip(problems, found, strict=True))
    assert not (tmp_path / "t").exists()


def refused(lab: MergeLab, message: str) -> None:
    """Both the check before the poll and the commit refuse, and nothing changes."""
    before = lab.version
    (problem,) = lab.preflight(ROWS)
    assert message in problem
    with pytest.raises(ConfigError) as error:
        lab.put(DAYS[3], [(9, "z")], "refused")
    assert str(error.value) == problem
    assert lab.version == before


def test_a_table_with_rows_that_were_not_merged_is_refused_by_name(tmp_path: Path) -> None:
    plain = MergeLab(tmp_path / "t", write_mode="replace", key=()).made()
    plain.put(DAYS[0], [(1, "a")])
    plain.put(DAYS[1], [(1, "b")])
    refused(MergeLab(tmp_path / "t"), f"table {tmp_path / 't'} has rows that were not merged")


def test_a_table_without_rows_may_begin_to_merge(tmp_path: Path) -> None:
    MergeLab(tmp_path / "t", write_mode="replace", key=()).made().put(DAYS[0], [])
    lab = MergeLab(tmp_path / "t").made()
    lab.put(DAYS[1], [(1, "a")])
    assert lab.shown() == [(1, "a")]


def test_a_merged_table_is_not_replaced(tmp_path: Path) -> None:
    MergeLab(tmp_path / "t").made().put(DAYS[0], [(1, "a")])
    refused(
        MergeLab(tmp_path / "t", write_mode="replace", key=()),
        f"table {tmp_path / 't'} is merged by key=('id',), and write_mode='replace' would delete rows",
    )


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"key": ("id", "value")}, "key was ('id',) and is ('id', 'value')"),
        ({"newest_by": None}, "newest_by was 'version' and is None"),
        ({"delete_where": "gone"}, "delete_where was None and is 'gone'"),
    ],
)
def test_another_rule_than_the_tables_is_refused(tmp_path: Path, options: dict[str, Any], change: str) -> None:
    MergeLab(tmp_path / "t", newest_by="version").made().put(DAYS[0], [(1, "a")])
    refused(MergeLab(tmp_path / "t", **({"newest_by": "version"} | options)), f"by another rule: {change}. Set")
    lab = MergeLab(tmp_path / "t", newest_by="version")
    lab.clean_log()
    refused(MergeLab(tmp_path / "t", **({"newest_by": "version"} | options)), change)
    lab.put(DAYS[1], [(1, "b")])


def test_rows_without_a_day_are_refused(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t").made()
    lab.put(DAYS[0], [(1, "a")])
    table = DeltaTable(str(lab.root)).to_pyarrow_table().slice(0, 1)
    from deltalake import write_deltalake

    columns = table.set_column(table.schema.get_field_index("day"), "day", pa.nulls(1, pa.date32()))
    write_deltalake(str(lab.root), columns, mode="append")
    refused(lab, "has rows without a day")
