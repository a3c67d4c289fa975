"""Each command that a page or a message names exists, with these arguments."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

ROOT = Path(__file__).parents[3]
_COMMAND = re.compile(
    r"\bairflow connect ((?:[^\s`'\"|>#&;,.:)\\…]|[.](?=\w)|[,:](?=\S)|\"[^\"]*\"|'[^']*'| (?=[\w\"'<\[-]))+)"
)
_OPTIONAL = re.compile(r"\[([^\]]*)\]")
GROUPS = {"offsets", "rejects"}


def commands() -> Iterator[tuple[str, str]]:
    """Yield file and command, from code spans and blocks of pages, and from the package's texts."""
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        code = re.findall(r"```.*?```|`[^`]+`", page.read_text(), re.DOTALL)
        for command in _COMMAND.findall("\n".join(code)):
            yield page.name, command.strip()
    for file in sorted((ROOT / "airflow_provider_connect").rglob("*.py")):
        for command in _COMMAND.findall("\n".join(re.findall(r"'(airflow connect [^'\n]*)'", file.read_text()))):
            yield file.name, command.strip()


def complete(command: str) -> list[str]:
    """Return the arguments, with the optional ones in brackets and without names of files to fill in."""
    arguments = shlex.split(_OPTIONAL.sub(r"\1", command))
    return [argument.split("|")[0] for argument in arguments if argument != "="]


def parses(arguments: list[str]) -> str | None:
    """Return the parser's complaint, or None."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            get_parser().parse_args(["connect", *arguments])
        except SystemExit as ended:
            return None if ended.code == 0 else errors.getvalue().strip().splitlines()[-1]
    return None


def test_there_are_commands_to_try() -> None:
    assert len({*commands()}) > 40


@pytest.mark.parametrize(("file", "command"), sorted({*commands()}))
def test_every_command_exists(file: str, command: str) -> None:
    arguments = complete(command)
    is_name = len(arguments) == 1 or (arguments[0] in GROUPS and len(arguments) == 2)
    has_open_end = arguments[-1].startswith("--") or arguments[0] == "preview"  # the sentence names the option alone
    complaint = parses([*arguments, "--help"] if is_name or has_open_end else arguments)
    if complaint is not None and has_open_end:
        complaint = parses([*arguments, "value"])
    assert complaint is None, f"airflow connect {command}: {complaint}"
