"""Reads a YAML file into plain values, and remembers the line of each.

The values are those that JSON would have, so that an editor with the JSON Schema sees what is seen here: a date stays
text, ``off`` and ``yes`` are words, and the names in a mapping are text. (By default PyYAML reads YAML 1.1, where they
are a date, ``False`` and ``True``.)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped,unused-ignore]

KeyPath = tuple[str | int, ...]
"""Where a value stands: the names and positions that lead to it."""


@dataclass(frozen=True, order=True)
class FileProblem:
    """One thing that is wrong in a file.

    :param line: 0 if there is none.
    :param place: of the value, with dots; "" for the whole file.
    """

    file: str
    line: int
    key_path: str
    text: str

    def __str__(self) -> str:
        """Return it as editors and compilers write it: ``file:line: place: text``."""
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key_path}: {self.text}" if self.key_path else f"{where}: {self.text}"


@dataclass
class YamlFile:
    """A file that was read, and what is wrong with it.

    :param name: as messages name it.
    """

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[FileProblem] = field(default_factory=list)

    def add_problem(self, key_path: KeyPath, text: str, line: int | None = None) -> None:
        """Note a problem, at the line of the place or of the nearest thing around it."""
        found = next(
            (self.lines[key_path[:end]] for end in range(len(key_path), -1, -1) if key_path[:end] in self.lines), 0
        )
        self.problems.append(FileProblem(self.name, line or found, ".".join(map(str, key_path)), text))


def read_yaml(path: Path, name: str) -> YamlFile:
    """Read a file; what cannot be read is among its problems."""
    file = YamlFile(name)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        file.add_problem((), f"cannot be read: {type(error).__name__}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or "a character that YAML does not allow"
        file.add_problem((), f"is no YAML: {text}", mark.line + 1 if mark is not None else None)
    except RecursionError:
        file.add_problem((), "is nested too deeply")
    else:
        if isinstance(root, yaml.MappingNode):
            file.values = _Reading(file).value(root, ())
        else:
            file.add_problem((), "has no options: it is to be one mapping")
    return file


_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": float,
    "seq": list,
    "map": dict,
}


class _Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """Takes for a truth value, a number or nothing what the core schema of YAML 1.2 takes for it."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        # An anchor inside itself would have no end, and nested ones have as many values as one likes.
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "anchors are not read: write the values out", mark)
        return super().compose_node(parent, index)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(rf"^(?:{_pattern})\Z"), [*_first])
_Loader.add_implicit_resolver(f"{_TAG}null", re.compile("^$"), [""])


class _Reading:
    """One walk through a file's nodes."""

    def __init__(self, file: YamlFile) -> None:
        self.file = file

    def value(self, node: Any, place: KeyPath) -> Any:
        self.file.lines.setdefault(place, node.start_mark.line + 1)
        if node.tag.removeprefix(_TAG) not in _KINDS:
            self.file.add_problem(place, f"the tag {node.tag!r} is not read", node.start_mark.line + 1)
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*place, index)) for index, each in enumerate(node.value)]
        return self._scalar(node, place)

    def _mapping(self, node: Any, place: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, each in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self.file.add_problem(place, "a name must be text", line)
                continue
            name, inner = key.value, (*place, key.value)
            if name in found:
                self.file.add_problem(inner, f"stands twice, first at line {self.file.lines[inner]}", line)
                continue
            self.file.lines[inner] = line
            found[name] = self.value(each, inner)
        return found

    def _scalar(self, node: Any, place: KeyPath) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        try:
            return _KINDS[kind](text)
        except ValueError:  # a tag may say what the text is not
            self.file.add_problem(place, f"is no {kind}", node.start_mark.line + 1)
            return None
