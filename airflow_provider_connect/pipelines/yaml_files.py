"""Reads a YAML file into plain values with their line numbers.

Dates are text, and ``off`` and ``yes`` are words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

from airflow_provider_connect.errors import describe_unreadable

KeyPath = tuple[str | int, ...]
"""Keys and list positions that lead to a value."""


@dataclass(frozen=True, order=True)
class FileProblem:
    """Problem in a file.

    :param line: 0 if unknown.
    :param key_path: dotted, empty for the whole file.
    """

    file: str
    line: int
    key_path: str
    text: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        return f"{location}: {self.key_path}: {self.text}" if self.key_path else f"{location}: {self.text}"


@dataclass
class YamlFile:
    """Values of a file, and the problems found in them."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def add_problem(self, key_path: KeyPath, text: str, line: int | None = None) -> None:
        """Add a problem with a value."""
        nearest_line = next(
            (self.lines[key_path[:end]] for end in range(len(key_path), -1, -1) if key_path[:end] in self.lines), 0
        )
        self.problems.append(FileProblem(self.name, line or nearest_line, ".".join(map(str, key_path)), text))


def read_yaml(path: Path, name: str) -> YamlFile:
    """Read a file. A syntax error becomes a problem of the file."""
    file = YamlFile(name)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        file.add_problem((), f"cannot be read: {describe_unreadable(error)}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or "a character that YAML does not allow"
        file.add_problem((), f"is not valid YAML: {text}", mark.line + 1 if mark is not None else None)
    except RecursionError:
        file.add_problem((), "is nested too deeply")
    else:
        if isinstance(root, yaml.MappingNode):
            file.values = _NodeReader(file).value(root, ())
        else:
            file.add_problem((), "must be a mapping of options")
    return file


_TAG = "tag:yaml.org,2002:"
_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
    "seq": list,
    "map": dict,
}


class _Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """Loader that reads booleans, numbers and nulls as YAML 1.2 does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        # An anchor inside itself would be endless, and nested anchors multiply without limit.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "anchors are not supported. Write out the values", mark)
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(rf"^(?:{_pattern})\Z"), [*_first])
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile("^$"), [""])


class _NodeReader:
    def __init__(self, file: YamlFile) -> None:
        self.file = file

    def value(self, node: Any, key_path: KeyPath) -> Any:
        self.file.lines.setdefault(key_path, node.start_mark.line + 1)
        if node.tag.removeprefix(_TAG) not in _CONVERTERS:
            self.file.add_problem(key_path, f"the tag {node.tag!r} is not supported", node.start_mark.line + 1)
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, key_path)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*key_path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, key_path)

    def _mapping(self, node: Any, key_path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.file.add_problem(key_path, "a name must be text", line)
                continue
            name, item_path = key.value, (*key_path, key.value)
            if name in values:
                self.file.add_problem(item_path, f"is a duplicate of line {self.file.lines[item_path]}", line)
                continue
            self.file.lines[item_path] = line
            values[name] = self.value(item, item_path)
        return values

    def _scalar(self, node: Any, key_path: KeyPath) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        try:
            return _CONVERTERS[kind](text)
        except ValueError:  # an explicit tag may not fit the text
            self.file.add_problem(key_path, f"is not a valid {kind}", node.start_mark.line + 1)
            return None
