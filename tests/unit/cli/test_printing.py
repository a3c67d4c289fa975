"""Rows that a command prints: a program that reads them gets every value whole."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from decimal import Decimal
from typing import Any

import pytest
import yaml
from airflow.cli.cli_parser import get_parser
from sqlalchemy.exc import OperationalError

from airflow_provider_connect.cli.terminal import print_fields, print_rows

AT = dt.datetime(2026, 10, 5, 12, 0, 0, 123456, dt.UTC)


def printed(capsys: pytest.CaptureFixture[str], output: str, row: dict[str, Any]) -> Any:
    capsys.readouterr()
    print_rows([row], output)
    text = capsys.readouterr().out
    return (json.loads(text) if output == "json" else yaml.safe_load(text))[0]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_program_gets_every_digit(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "instant": AT,
        "wall": AT.replace(tzinfo=None),
        "whole": AT.replace(microsecond=0),
        "time": dt.time(12, 0, 0, 5),
        "nested": {"list": [AT], "deep": {"at": AT}},
        "decimal": Decimal("0.10"),
        "double": 0.1 + 0.2,
    }
    assert printed(capsys, output, row) == {
        "instant": "2026-10-05 12:00:00.123456+00:00",
        "wall": "2026-10-05 12:00:00.123456",
        "whole": "2026-10-05 12:00:00+00:00",
        "time": "12:00:00.000005",
        "nested": {"list": ["2026-10-05 12:00:00.123456+00:00"], "deep": {"at": "2026-10-05 12:00:00.123456+00:00"}},
        "decimal": "0.10",
        "double": "0.30000000000000004",
    }


def test_a_table_shows_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"published": AT}], "plain")
    out = capsys.readouterr().out
    assert "2026-10-05 12:00:00+00:00" in out


def test_a_database_without_tables_is_told_with_the_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def keys(_: str) -> list[str]:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("no such table: variable"))

    monkeypatch.setattr("airflow_provider_connect.hooks.variables.keys", keys)
    args = get_parser().parse_args(["connect", "offsets", "list"])
    with pytest.raises(SystemExit) as ended:
        args.func(args)
    assert ended.value.code == 78
    assert "Airflow's database has no tables. Check AIRFLOW_HOME, which is /" in capsys.readouterr().err


def test_an_object_on_a_narrow_terminal_is_one_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    print_fields({"stream": "sql/shop.orders", "target": "/data/orders/" + "x" * 60}, "table")
    printed = capsys.readouterr().out
    assert printed.count("field ") == 1
    assert "sql/shop.orders" in printed


def test_only_the_last_column_of_a_table_is_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row = {"what": "source: credentials", "state": "problem", "found": "word " * 30}
    print_rows([row, row], "table")
    assert capsys.readouterr().out.count("what") == 1
    print_rows([row | {"state": "x" * 60}] * 2, "table")
    assert capsys.readouterr().out.count("what") == 2
