"""Names of columns and of their types as options have them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from airflow_provider_connect.values.ddl import plain_type_name


def each_once(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names, each of which stands once.

    :raises ValueError: naming those that do not.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"stands twice: {', '.join(map(repr, twice))}")
    return names


ColumnNames = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(each_once)]
"""Names of columns, at least one, each once."""

TypeName = Annotated[str, AfterValidator(plain_type_name)]
"""A type without parts, as Spark's DDL names it: ``BIGINT``, ``DECIMAL(10,2)``; kept in capitals."""
