"""Tests that the driver stays readable: a short composition root, and few arguments for each class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SPARK = Path(__file__).parents[3] / "airflow_provider_connect" / "spark"
MAX_ARGUMENTS = 6
MAX_ROOT_LINES = 60
MESSAGES = {"Wire", "BaseModel"}
"""Bases of JSON records. Their fields are a format, and most have defaults."""


def names(nodes: list[ast.expr]) -> set[str]:
    calls = [node.func if isinstance(node, ast.Call) else node for node in nodes]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in calls}


def arguments(cls: ast.ClassDef) -> int:
    """Count the arguments of a class's own constructor, or the fields of a data class or named tuple."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) - 1
    if not (names(cls.decorator_list) & {"dataclass"} or names(cls.bases) & {"NamedTuple"}):
        return 0
    fields = [node for node in cls.body if isinstance(node, ast.AnnAssign)]
    return sum("init=False" not in ast.unparse(field) and "ClassVar" not in ast.unparse(field) for field in fields)


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for path in sorted(SPARK.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not names(node.bases) & MESSAGES:
                yield f"{path.relative_to(SPARK)}:{node.name}", node


def test_no_class_of_the_driver_takes_more_than_six_arguments() -> None:
    counted = {name: arguments(cls) for name, cls in classes()}
    assert max(counted.values()) > 3, "no class was counted"
    assert {name: count for name, count in counted.items() if count > MAX_ARGUMENTS} == {}


def test_no_class_of_the_driver_inherits_the_arguments_of_another() -> None:
    """A data class that extends a data class would take the arguments of both."""
    data = {cls.name for _, cls in classes() if "dataclass" in names(cls.decorator_list)}
    assert {name for name, cls in classes() if names(cls.bases) & data} == set()


def test_the_composition_root_fits_on_a_page() -> None:
    tree = ast.parse((SPARK / "composition.py").read_text(encoding="utf-8"))
    lengths = {
        node.name: node.end_lineno - node.lineno + 1
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    }
    assert lengths["run_job"] <= MAX_ROOT_LINES
