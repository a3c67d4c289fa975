"""``airflow connect docs`` and ``new``: print a connector's options, and write a new connector's skeleton."""

from __future__ import annotations

import inspect
import keyword
import re
from argparse import Namespace
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from airflow_provider_connect import registry
from airflow_provider_connect.cli import pages
from airflow_provider_connect.cli.terminal import command, print_note, print_rows
from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError


@dataclass(frozen=True)
class Option:
    """An option of a connector.

    :param type: as text. Allowed values are quoted, separated by ``|``.
    :param default: Python literal. None if the option is required.
    """

    name: str
    type: str
    default: str | None
    description: str


def list_options(connector: type[BaseModel]) -> list[Option]:
    """Return a connector's options as declared, in that order."""
    return [
        Option(
            name=name,
            type=_type(field.annotation),
            default=None if field.is_required() else _default(field),
            description=field.description or "",
        )
        for name, field in connector.model_fields.items()
    ]


def _default(field: Any) -> str:
    value = field.default if field.default is not PydanticUndefined else field.default_factory()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _type(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    arguments = get_args(annotation)
    if arguments and all(isinstance(argument, str) for argument in arguments):
        return " | ".join(f'"{argument}"' for argument in arguments)
    if type(None) in arguments or get_origin(annotation) in (Union, UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if get_origin(annotation) in (list, dict):
        return f"{get_origin(annotation).__name__} of {', '.join(_type(argument) for argument in arguments)}"
    return getattr(annotation, "__name__", str(annotation))


_ROOMS = {"sources": registry.source_class, "sinks": registry.sink_class}


@command
def describe(args: Namespace) -> None:
    """Print a connector's options, a page, or without a name the list of pages."""
    if args.name is None:
        rows = [{"page": name, "title": pages.title_of(name)} for name in pages.page_names()]
        print_rows(rows, args.output)
        return
    connectors = [class_of(args.name) for room, class_of in _ROOMS.items() if args.name in registry.names(room)]
    if args.page or (not connectors and args.name in pages.page_names()):
        print(pages.read_page(args.name))
        return
    if not connectors:
        known_names = {*pages.page_names(), *(name for room in _ROOMS for name in registry.names(room))}
        raise ConfigError(f"no connector and no page is named {args.name!r}; {suggest_nearest(args.name, known_names)}")
    print_rows([row for connector in connectors for row in _option_rows(connector)], args.output)
    if args.name in pages.page_names():
        print_note(f"The page: airflow connect docs {args.name} --page")


def _option_rows(connector: type[BaseModel]) -> list[dict[str, str]]:
    print_note(f"{connector.__name__}: {(inspect.getdoc(connector) or '').splitlines()[0]}")
    return [
        {
            "connector": connector.__name__,
            "option": option.name,
            "type": option.type,
            "default": "required" if option.default is None else option.default,
            "description": option.description,
        }
        for option in list_options(connector)
    ]


_NAME = "[a-z][a-z0-9_]*"


@command
def write_new(args: Namespace) -> int:
    """Write a connector's skeleton, or the declarations of a manifest's streams."""
    if args.kind != "rest":
        if args.name is None or args.manifest is not None:
            raise ConfigError(f"new {args.kind}: name the connector, without --from")
        write_connector(args)
        return 0
    if args.manifest is None or args.name is not None:
        raise ConfigError(
            "new rest: --from names the manifest. A single stream is proposed by 'airflow connect propose'"
        )
    from airflow_provider_connect.cli.declarations import write_declarations  # noqa: PLC0415  # a skeleton does without

    return write_declarations(args)


def write_connector(args: Namespace) -> None:
    """Write a skeleton and its test into the working folder, and print the next step."""
    paths = write_scaffold(args.kind, args.name, Path.cwd())
    for path in paths:
        print_note(f"Wrote {path}")
    print_note(
        f"Next: pip install 'airflow-provider-connect[testing]', pytest {paths[-1].name}, and name the class in the "
        f"entry points of your package, under airflow_provider_connect.{args.kind}s"
    )


def write_scaffold(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a connector's module and its test, and return their paths.

    :raises ConfigError: the name is invalid or taken, or a file exists.
    """
    if not re.fullmatch(_NAME, name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} is not a connector name. Use lower-case letters, digits and underscores, and start with a letter"
        )
    if name in registry.names(f"{kind}s"):
        raise ConfigError(f"a {kind} named {name!r} exists. Choose another name")
    replacements = {
        "NAME": name,
        "CLASS": "".join(word.title() for word in name.split("_")),
        "URI": name.replace("_", "-"),
    }
    texts = {f"{name}.py": kind, f"test_{name}.py": f"{kind}_test"}
    if existing := [file for file in texts if (folder / file).exists()]:
        raise ConfigError(f"{folder / existing[0]} exists. Nothing was written")
    for file, template in texts.items():
        text = files(__package__).joinpath("scaffold", f"{template}.txt").read_text(encoding="utf-8")
        with (folder / file).open("x", encoding="utf-8") as target:
            target.write(re.sub("NAME|CLASS|URI", lambda word: replacements[word[0]], text))
    return [folder / file for file in texts]
