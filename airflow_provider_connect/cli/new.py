"""``airflow connect new``: the beginning of a connector, which passes the first step of the shipped suite."""

from __future__ import annotations

import keyword
import re
from argparse import Namespace
from importlib.resources import files
from pathlib import Path

from airflow_provider_connect import registry
from airflow_provider_connect.cli.terminal import command, note
from airflow_provider_connect.errors import ConfigError

_NAME = "[a-z][a-z0-9_]*"


@command
def write_connector(args: Namespace) -> None:
    """Write two files into the working folder, and say what comes next."""
    written = scaffold(args.kind, args.name, Path.cwd())
    for path in written:
        note(f"Wrote {path}")
    note(
        f"Next: pip install 'airflow-provider-connect[testing]', pytest {written[-1].name}, and name the class in the "
        f"entry points of your package, under airflow_provider_connect.{args.kind}s"
    )


def scaffold(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a connector's module and its test; return their paths.

    :raises ConfigError: the name cannot be one, is taken, or a file is there already; then nothing is written.
    """
    if not re.fullmatch(_NAME, name) or keyword.iskeyword(name):
        raise ConfigError(f"{name!r} is no name for a connector: small letters, digits and underscores, a letter first")
    if name in registry.names(f"{kind}s"):
        raise ConfigError(f"there is a {kind} {name!r} already: give yours another name")
    words = {"NAME": name, "CLASS": "".join(word.title() for word in name.split("_")), "URI": name.replace("_", "-")}
    texts = {f"{name}.py": kind, f"test_{name}.py": f"{kind}_test"}
    if there := [file for file in texts if (folder / file).exists()]:
        raise ConfigError(f"{folder / there[0]} is there already: nothing was written")
    for file, template in texts.items():
        text = files(__package__).joinpath("scaffold", f"{template}.txt").read_text(encoding="utf-8")
        with (folder / file).open("x", encoding="utf-8") as made:
            made.write(re.sub("NAME|CLASS|URI", lambda word: words[word[0]], text))
    return [folder / file for file in texts]
