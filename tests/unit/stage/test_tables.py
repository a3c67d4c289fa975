"""Rows dealt out to tables: names that are legal and apart, every row once, and bounds on memory and files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.stage import tables as stage_tables
from airflow_provider_connect.stage.manifest import TABLE_FILE_PATTERN, Manifest, PollResult
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import (
    HEAD_FOLDER,
    MAX_NAME_CHARACTERS,
    StagedPart,
    TableSplitWriter,
    TableTemplate,
    open_row_writer,
    table_folder,
    template_problem,
)
from airflow_provider_connect.window import Day

SCHEMA = pa.schema([pa.field("event", pa.string()), pa.field("n", pa.int64())])
SHARE = StagedPart(Day(date=dt.date(2026, 5, 1)), "a-1", 0, "c0")
EVENTS = TableTemplate(template="{event}", most=100)

odd = st.sampled_from(
    (
        *(
            "",
            ".",
            "..",
            "/",
            "a/b",
            "_connect",
            HEAD_FOLDER,
            "_delta_log",
            "Login",
            "login",
            "LOGIN",
            "log in",
            "log_in",
        ),
        *("null", "día", "di\u0301a", "登录", "x" * 300, "x" * 301, "login_x0123456789", "day=2026-05-01"),
        *("a\x00b", "\ud800"),
    )
)


def batch(events: list[str | None], first: int = 0) -> pa.RecordBatch:
    return pa.record_batch([events, list(range(first, first + len(events)))], schema=SCHEMA)


@given(st.sets(st.none() | odd | st.text(max_size=20), min_size=1), st.sampled_from(["{event}", "Mix.{event}_V2"]))
def test_names_are_legal_and_apart_even_where_case_does_not_count(values: set[str | None], template: str) -> None:
    tables = TableTemplate(template=template, most=1)
    names = {value: tables.folder_name(value) for value in values}
    assert len({name.casefold() for name in names.values()}) == len(values)
    for value, name in names.items():
        assert TABLE_FILE_PATTERN.fullmatch(f"{name}/day=2026-05-01/a-00000-0.parquet"), name
        assert name.isascii()
        assert len(name) <= MAX_NAME_CHARACTERS
        assert name == TableTemplate(template=template, most=5).folder_name(value), (
            "the name depends on the value alone"
        )


def test_names_that_are_legal_stay_and_others_can_be_read() -> None:
    assert [EVENTS.folder_name(value) for value in ("login", "sign-up_2")] == ["login", "sign-up_2"]
    shown = {
        value: EVENTS.folder_name(value).rpartition("_x")[0]
        for value in ("Sign Up", "$session_start", "登录", "", None)
    }
    assert shown == {
        "Sign Up": "Sign_Up",
        "$session_start": "session_start",
        "登录": "value",
        "": "value",
        None: "null",
    }


@pytest.mark.parametrize("template", ["plain", "{a}{b}", "{a", "a}", "_{a}", ".{a}", "x={a}", "é{a}", "y" * 90 + "{a}"])
def test_a_template_that_cannot_work_is_named(template: str) -> None:
    assert template_problem(template)


def test_without_a_column_there_is_one_file(tmp_path: Path) -> None:
    assert isinstance(open_row_writer(Folder(str(tmp_path)), SCHEMA, None, SHARE), RowWriter)


@pytest.mark.parametrize(
    "sizes", [(1 << 30, 1 << 30, 16), (1, 1 << 30, 16), (1, 1, 2)], ids=["at once", "dealt", "few"]
)
def test_every_row_is_in_its_table_once_whatever_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]
) -> None:
    for name, size in zip(("SPLIT_BYTES", "MAX_PENDING_BYTES", "MAX_OPEN_FILES"), sizes, strict=True):
        monkeypatch.setattr(stage_tables, name, size)
    writer = TableSplitWriter(Folder(str(tmp_path)), SCHEMA, EVENTS, SHARE)
    events = ["a", "b", None, "C c", "d"]
    expected: dict[str, list[int]] = {}
    with writer:
        for first in range(0, 60, 6):
            rows = [events[(first + i * i) % 5] for i in range(6)]
            writer.write(batch(rows, first))
            assert len(writer._open) <= sizes[2]
            for i, event in enumerate(rows):
                expected.setdefault(EVENTS.folder_name(event), []).append(first + i)
        writer.write(batch([]))
    found: dict[str, list[int]] = {}
    for file in writer.files:
        table = pq.ParquetFile(tmp_path / file.path).read()
        assert file.rows == table.num_rows > 0
        assert table.schema.names == SCHEMA.names
        assert {EVENTS.folder_name(event) for event in table["event"].to_pylist()} == {table_folder(file.path)}
        found.setdefault(table_folder(file.path), []).extend(table["n"].to_pylist())
    assert {name: sorted(rows) for name, rows in found.items()} == expected
    assert (len(writer.files) > len(expected)) == (sizes[1] == 1)
    polled = PollResult(files=writer.files)
    manifest = Manifest(day=SHARE.day, attempt="a-1", fingerprint="f", polled=polled)
    assert Manifest.read(manifest.model_dump_json().encode(), SHARE.day, "a-1") == manifest


def test_values_that_are_no_texts_are_told_apart_by_their_texts(tmp_path: Path) -> None:
    schema = pa.schema([("kind", pa.dictionary(pa.int8(), pa.string())), ("n", pa.int64())])
    by_number = TableSplitWriter(Folder(str(tmp_path)), schema, TableTemplate(template="{n}", most=9), SHARE)
    with by_number:
        by_number.write(
            pa.record_batch([pa.array(["x", "y", "x"]).dictionary_encode().cast(schema[0].type), [7, 8, 7]], schema)
        )
    assert [(table_folder(f.path), f.rows) for f in by_number.files] == [("7", 2), ("8", 1)]
    by_kind = TableSplitWriter(Folder(str(tmp_path)), schema, TableTemplate(template="{kind}", most=9), SHARE)
    with by_kind:
        by_kind.write(
            pa.record_batch([pa.array(["x", None, "x"]).dictionary_encode().cast(schema[0].type), [7, 8, 7]], schema)
        )
    assert sorted(f.rows for f in by_kind.files) == [1, 2]


def test_too_many_tables_and_any_other_error_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPLIT_BYTES", "MAX_PENDING_BYTES", "MAX_OPEN_FILES"):
        monkeypatch.setattr(stage_tables, name, 1)
    writer = TableSplitWriter(Folder(str(tmp_path)), SCHEMA, TableTemplate(template="{event}", most=3), SHARE)

    def write() -> None:
        with writer:
            for event in "abcd":
                writer.write(batch([event]))

    with pytest.raises(ConfigError, match=r"4 tables or more are needed.*max_tables=3"):
        write()
    assert not [*tmp_path.rglob("*.parquet")]
    assert writer.files == ()


def test_a_manifest_that_names_a_file_outside_a_table_is_refused() -> None:
    for path in ("../day=2026-05-01/a-1-00000-0.parquet", "_connect/day=2026-05-01/a-1-00000-0.parquet"):
        text = Manifest(day=SHARE.day, attempt="a-1", fingerprint="f", polled=PollResult()).model_dump()
        text["polled"]["files"] = [{"path": path, "rows": 1, "size_bytes": 1}]
        with pytest.raises(ValueError, match="not this attempt's"):
            Manifest.read(Manifest.model_validate(text).model_dump_json().encode(), SHARE.day, "a-1")
