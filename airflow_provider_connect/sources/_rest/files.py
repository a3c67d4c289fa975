"""Reads a declaration from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_connect.errors import ConfigError, describe_unreadable


def read_declaration(path: Path) -> dict[str, Any]:
    """Return the declaration in a YAML or JSON file.

    :raises ConfigError: the file is unreadable, or an object repeats a name.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the declaration {str(path)!r} cannot be read: {describe_unreadable(error)}") from None
    try:
        declaration = (
            json.loads(text, object_pairs_hook=_without_repeats) if path.suffix == ".json" else _parse_yaml(text)
        )
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the declaration {str(path)!r} is wrong: {error}") from None
    if not isinstance(declaration, dict):
        raise ConfigError(f"the declaration {str(path)!r} is not an object with options")
    return declaration


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)}: repeated in one object")
    return dict(pairs)


def _parse_yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
            return _without_repeats(
                [
                    (self.construct_object(key, deep=True), self.construct_object(value, deep=True))
                    for key, value in node.value
                ]
            )

    try:
        return yaml.load(text, Loader=Loader)  # noqa: S506  # a safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f" at line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"it is not valid YAML{location}") from None
