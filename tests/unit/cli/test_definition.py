from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand
from airflow.cli.cli_parser import get_parser

from airflow_provider_connect.cli import terminal
from airflow_provider_connect.cli.connectors import describe
from airflow_provider_connect.cli.definition import get_commands
from airflow_provider_connect.cli.tasks import accept_former_day
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError


def actions(commands: Sequence[ActionCommand | GroupCommand]) -> Iterator[ActionCommand]:
    for command in commands:
        if isinstance(command, GroupCommand):
            yield from actions(list(command.subcommands))
        else:
            yield command


def test_every_command_leads_to_a_function() -> None:
    found = list(actions(get_commands()))
    assert len(found) == 21
    for command in found:
        name = command.func.__closure__ and [cell.cell_contents for cell in command.func.__closure__]
        module, _, function = next(each for each in name or () if isinstance(each, str)).rpartition(".")
        assert callable(getattr(__import__(module, fromlist=[function]), function)), command.name


@pytest.mark.parametrize("arguments", [["2026-10-05"], ["a_task", "2026-10-05"]])
def test_a_day_without_its_flag_is_accepted_with_a_warning(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    args = get_parser().parse_args(["connect", "ledger", "a_dag", *arguments])
    accept_former_day(args)
    assert (args.task_id, args.day) == ("a_task" if len(arguments) > 1 else None, "2026-10-05")
    assert "Write --day 2026-10-05: the next version refuses a day without --day" in capsys.readouterr().err


def test_the_group_is_among_airflows_own_commands(capsys: pytest.CaptureFixture[str]) -> None:
    args = get_parser().parse_args(["connect", "ledger", "a_dag", "--day", "2026-10-05"])
    assert (args.dag_id, args.task_id, args.day) == ("a_dag", None, "2026-10-05")
    args = get_parser().parse_args(["connect", "ledger", "a_dag", "a_task", "--day", "2026-10-05"])
    assert (args.task_id, args.day) == ("a_task", "2026-10-05")
    with pytest.raises(SystemExit) as ended:
        get_parser().parse_args(["connect", "new", "bridge", "a"])
    assert ended.value.code == 2
    assert "invalid choice: 'bridge'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("mixpanel", 0, "MixpanelSource"), ("kafka", 0, "KafkaSink"), ("mixpanle", 78, "did you mean 'mixpanel'?")],
)
def test_docs_describe_every_option_of_a_connector(
    capsys: pytest.CaptureFixture[str], name: str, code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        describe(get_parser().parse_args(["connect", "docs", name, "-o", "plain"]))
    out, err = capsys.readouterr()
    assert ended.value.code == code
    assert said in out + err
    assert ("conn_id" in out) == (code == 0)


def test_the_page_has_every_command_and_exit_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    unnamed = [command.name for command in actions(get_commands()) if f"`{command.name}" not in page]
    groups = ("offsets", "rejects")
    assert [name for name in unnamed if not any(f"`{group} {name}`" in page for group in groups)] == []
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert codes == {int(code) for code in re.findall(r"^(\d+) ", terminal.__doc__ or "", re.MULTILINE)}
    assert codes >= {error.exit_code for error in (ConfigError, ConnectError, DataError, RetriableError)}
