"""Every command that is declared is there, and what it shows is what JSON and people can read."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand
from pydantic import Field

from airflow_provider_connect.cli.commands import get_commands
from airflow_provider_connect.cli.entry import main
from airflow_provider_connect.cli.option_table import options
from airflow_provider_connect.cli.reporting import show
from airflow_provider_connect.config import Options


def declared(group: GroupCommand, before: str = "") -> Iterator[tuple[str, ActionCommand]]:
    for each in group.subcommands:
        if isinstance(each, GroupCommand):
            yield from declared(each, f"{before}{each.name}.")
        else:
            yield f"{before}{each.name}", each


def test_every_command_has_its_function_in_the_module_of_its_name() -> None:
    (connect,) = get_commands()
    assert isinstance(connect, GroupCommand)
    names = dict(declared(connect))
    assert "check" in names
    assert "offsets.list" in names
    for name, command in names.items():
        module, _, last = name.rpartition(".")
        found = importlib.import_module(f"airflow_provider_connect.cli.{module or last}")
        assert callable(getattr(found, f"{last}_command")), name
        assert command.help, name


@pytest.mark.parametrize("arguments", [[], ["look"], ["offsets"], ["plan", "dag"]])
def test_a_wrong_command_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: python -m airflow_provider_connect" in capsys.readouterr().err.lower()


def test_docs_of_an_unknown_connector_name_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["docs", "detla"])
    assert ended.value.code == 78
    assert "no source or sink is called 'detla'; did you mean 'delta'?" in capsys.readouterr().err


def test_docs_of_a_connector_are_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    main(["docs", "delta", "--output", "json"])
    found = {row["option"]: row for row in json.loads(capsys.readouterr().out)}
    assert found["path"]["default"] == "required"
    assert found["schema_contract"]["type"] == '"evolve" | "freeze"'


def test_numbers_stay_numbers_in_json_and_nothing_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    row: dict[str, Any] = {"rows": 3, "hours": 1.5, "none": None, "bytes": b"\x01", "inner": [{"n": float("nan")}]}
    show([row], "json", "")
    assert json.loads(capsys.readouterr().out) == [
        {"rows": 3, "hours": 1.5, "none": None, "bytes": "01", "inner": [{"n": "nan"}]}
    ]


def test_no_rows_are_an_empty_list_for_programs_and_words_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    show([], "json", "no day is missing")
    show([], "table", "no day is missing")
    shown = capsys.readouterr()
    assert json.loads(shown.out) == []
    assert shown.err == "no day is missing\n"


def test_types_of_options_are_told_in_words() -> None:
    class Made(Options):
        names: list[str] | None = Field(default=None, description="Names.")
        number: int = Field(description="A number.")

    assert [(row["option"], row["type"], row["default"]) for row in options(Made)] == [
        ("names", "list of str", "None"),
        ("number", "int", "required"),
    ]
