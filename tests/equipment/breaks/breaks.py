"""The list of breaks: each replaces one text of the package.

The TOML files beside this module hold a table for each break, by its name::

    [name-of-the-break]
    says = "One sentence: which promise is broken."
    at = "spark/days.py"            # a file of the package, or a room of it
    within = "_publish_or_repoll"      # optional: the function or class that holds the text
    text = '''the text'''           # as the code has it, apart from white space
    into = '''its replacement'''
    tests = ["unit/spark/days"]     # below tests/: the fewest files that should find it

The text must be there exactly once, so a change of the code that moves it shows up as an error that names the break.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "airflow_provider_connect"
LISTS = sorted(Path(__file__).parent.glob("*.toml"))


class AnchorError(Exception):
    """The text of a break is not there exactly once, or its replacement is no Python."""


@dataclass(frozen=True)
class Break:
    """One fault.

    :param at: file or folder below the package.
    :param within: name of the function or class that holds the text; "" for the whole file.
    :param tests: files and folders below ``tests``.
    :param unfound: true if no test found it when it was listed.
    """

    name: str
    says: str
    at: str
    text: str
    into: str
    tests: tuple[str, ...]
    within: str = ""
    unfound: bool = False

    def applied(self, package: Path) -> tuple[Path, str]:
        """Return the file that changes, and its broken source.

        :raises AnchorError: naming the break.
        """
        pattern = re.compile(r"\s+".join(re.escape(word) for word in self.text.split()))
        places = [
            (path, source, match.span())
            for path in _modules(package / self.at)
            for source in [path.read_text(encoding="utf-8")]
            for match in pattern.finditer(source)
            if _is_within(source, match.start(), self.within)
        ]
        if len(places) != 1:
            where = f"{self.at}, {self.within}" if self.within else self.at
            files = ", ".join(sorted({str(path.relative_to(package)) for path, *_ in places})) or "nowhere"
            raise AnchorError(f"{self.name}: its text is in {where} {len(places)} times ({files}), not once")
        ((path, source, (start, end)),) = places
        broken = source[:start] + self.into + source[end:]
        try:
            tree = ast.parse(broken)
            compile(tree, str(path), "exec")
        except SyntaxError as error:
            raise AnchorError(f"{self.name}: {path.name} is no Python with its replacement: {error}") from None
        if ast.dump(tree) == ast.dump(ast.parse(source)):
            raise AnchorError(f"{self.name}: its replacement changes nothing")
        return path, broken


def all_breaks() -> list[Break]:
    """Return the breaks of all lists."""
    breaks = []
    for path in LISTS:
        for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
            breaks.append(Break(name=name, **(fields | {"tests": tuple(fields["tests"])})))
    return breaks


def _modules(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def _is_within(source: str, position: int, name: str) -> bool:
    if not name:
        return True
    line = source.count("\n", 0, position) + 1
    return any(first <= line <= last for first, last in _definitions(source, name))


def _definitions(source: str, name: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
            yield node.lineno, node.end_lineno or node.lineno
