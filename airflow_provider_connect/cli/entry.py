"""Runs a command without ``airflow`` before it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from airflow.cli.cli_config import GroupCommand
from airflow.cli.cli_parser import _add_command

from airflow_provider_connect.cli.commands import get_commands


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments, and run the command that they name; the process ends with its exit code."""
    (group,) = get_commands()
    assert isinstance(group, GroupCommand)
    parser = argparse.ArgumentParser(prog="python -m airflow_provider_connect", description=group.description)
    commands = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for command in sorted(group.subcommands, key=lambda each: each.name):
        _add_command(commands, command)
    parsed = parser.parse_args(arguments)
    parsed.func(parsed)
