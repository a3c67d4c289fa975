"""Names of columns as options have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field


def _each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"stands twice: {', '.join(map(repr, twice))}")
    return names


ColumnNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_each_once)]
"""Names of columns, at least one, each once."""
