"""Conditions on rows: comparisons of columns, combined by ``all``, ``any`` and ``negate``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from airflow_provider_connect.shapes.shape import unknown_column_problems
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import is_text, plain_type, type_group

if TYPE_CHECKING:
    import pyarrow as pa

Scalar = bool | int | float | str
"""A JSON value. Dates and times are texts, such as ``2026-03-01T12:00:00Z``. Decimals may be texts."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "float": (int, float),
    "decimal": (int, float, str),
    "date": (str,),
    "timestamp": (str,),
}


def typed_literal(value: Scalar, kind: pa.DataType) -> Any:
    """Return a value as an Arrow scalar of a column's type, exactly, or None if it does not fit."""
    import pyarrow as pa

    kind = plain_type(kind)
    shape = type_group(kind)
    if type(value) not in _PYTHON_TYPES.get(shape or "", ()):
        return None
    with suppress(pa.ArrowException, OverflowError, ValueError, InvalidOperation):
        scalar = pa.scalar(_python_value(value, shape, kind), kind)
        return scalar if scalar.is_valid else None
    return None


def _python_value(value: Any, shape: str | None, kind: pa.DataType) -> Any:
    if shape == "decimal":
        return Decimal(str(value))
    if shape == "date":
        return dt.date.fromisoformat(value)
    if shape == "timestamp":
        moment = dt.datetime.fromisoformat(value)
        if kind.tz is None:
            # What a clock shows has no offset, and a guess would be wrong in some zone.
            return moment if moment.tzinfo is None else None
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
    return value


Operator = Literal["equals", "in", "is_null", "matches", "less_than", "at_most", "greater_than", "at_least"]


class Condition(BaseModel):
    """A comparison of one column, or a combination of conditions.

    As in SQL, a comparison with NULL is unknown, and so is its negation.   A condition holds only if it is true.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    column: str | None = Field(default=None, description="Column to compare.")
    operator: Operator | None = Field(
        default=None,
        description="Comparison: equals, in (one of a list), is_null, matches (a regular expression of RE2 for the "
        "entire text), less_than, at_most, greater_than, at_least.",
    )
    value: Scalar | tuple[Scalar, ...] | None = Field(
        default=None,
        description="A value of the column's type. Dates and times are ISO 8601 texts. A list of values for in, none "
        "for is_null.",
    )
    all: tuple[Condition, ...] = Field(default=(), description="Conditions that must all hold, instead of a column.")
    any: tuple[Condition, ...] = Field(
        default=(), description="Conditions of which one must hold, instead of a column."
    )
    negate: bool = Field(default=False, description="Invert the condition. Unknown stays unknown.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum((self.column is not None, bool(self.all), bool(self.any))) != 1:
            raise ValueError("set exactly one of column, all and any")
        if self.column is None:
            problem = "operator and value belong to column" if self.operator or self.value is not None else None
        elif self.operator is None:
            problem = "operator: required with column"
        else:
            problem = _value_problem(self.operator, self.value)
        if problem:
            raise ValueError(problem)
        return self


def _value_problem(operator: Operator, value: object) -> str | None:
    if operator == "is_null":
        return None if value is None else "value: is_null takes none"
    if operator == "in":
        return None if isinstance(value, tuple) and value else "value: in takes a list of one value or more"
    if value is None or isinstance(value, tuple):
        return f"value: {operator} takes one value" + (", for NULL use is_null" if value is None else "")
    if operator == "matches" and not isinstance(value, str):
        return "value: matches takes a regular expression, as text"
    return None


RowTest = Callable[["pa.RecordBatch"], "pa.BooleanArray"]

_ORDERS = {"less_than": "less", "at_most": "less_equal", "greater_than": "greater", "at_least": "greater_equal"}


def condition_problems(condition: Condition | None, schema: pa.Schema) -> list[str]:
    """Return a condition's problems with a schema: unknown columns, and values of another type."""
    if condition is None:
        return []
    if condition.column is None:
        return [text for part in (*condition.all, *condition.any) for text in condition_problems(part, schema)]
    if unknown := unknown_column_problems([condition.column], schema):
        return unknown
    problem = _comparison_problem(condition, schema.field(condition.column).type)
    return [f"column {condition.column!r}: {problem}"] if problem else []


def _comparison_problem(condition: Condition, kind: pa.DataType) -> str | None:
    if condition.operator == "is_null":
        return None
    if condition.operator == "matches":
        if not is_text(kind):
            return f"matches compares texts, but the column is {kind}"
        return None if _is_re2(condition.value) else "RE2 refuses this regular expression"
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    is_fit = all(value is not None and typed_literal(value, kind) is not None for value in values)
    return None if is_fit else f"{condition.operator} needs a value of the column's type, {kind}"


def bind_condition(condition: Condition, schema: pa.Schema) -> RowTest:
    """Return a function that evaluates a condition for each row: true, false, or NULL for unknown."""
    import pyarrow.compute as pc

    test = _bind_positive(condition, schema)
    return (lambda batch: pc.invert(test(batch))) if condition.negate else test


def bind_row_filter(
    condition: Condition | None, schema: pa.Schema
) -> Callable[[pa.RecordBatch], pa.BooleanArray | None]:
    """Return a function that tests each row. Unknown becomes false. The function of no condition returns None."""
    if condition is None:
        return lambda batch: None
    test = bind_condition(condition, schema)
    return lambda batch: test(batch).fill_null(False)  # noqa: FBT003


def _bind_positive(condition: Condition, schema: pa.Schema) -> RowTest:
    import pyarrow.compute as pc

    if condition.all:
        return _combine([bind_condition(part, schema) for part in condition.all], pc.and_kleene)
    if condition.any:
        return _combine([bind_condition(part, schema) for part in condition.any], pc.or_kleene)
    return _comparison(condition, schema)


def _combine(tests: Sequence[RowTest], operator: Callable[..., pa.BooleanArray]) -> RowTest:
    return lambda batch: reduce(operator, [test(batch) for test in tests])


def _comparison(condition: Condition, schema: pa.Schema) -> RowTest:
    import pyarrow as pa
    import pyarrow.compute as pc

    index = schema.get_field_index(str(condition.column))
    kind, value = plain_type(schema.field(index).type), condition.value
    if condition.operator == "is_null":
        return lambda batch: without_dictionary(batch.column(index)).is_null()

    def column(batch: pa.RecordBatch) -> pa.Array:
        array = without_dictionary(batch.column(index))
        return array.cast(pa.large_string()) if type_group(kind) == "text" else array

    if type_group(kind) == "text":
        kind = pa.large_string()
    if condition.operator == "matches":
        pattern = _full_match(value)
        return lambda batch: pc.match_substring_regex(column(batch), pattern)
    if isinstance(value, tuple):
        allowed_values = pa.array([typed_literal(item, kind).as_py() for item in value], kind)

        def one_of(batch: pa.RecordBatch) -> pa.BooleanArray:
            array = column(batch)
            return pc.if_else(array.is_valid(), pc.is_in(array, allowed_values), pa.scalar(None, pa.bool_()))

        return one_of
    compare = getattr(pc, _ORDERS.get(str(condition.operator), "equal"))
    scalar = typed_literal(value, kind)  # type: ignore[arg-type]  # every other operator has a value
    return lambda batch: compare(column(batch), scalar)


def _full_match(pattern: object) -> str:
    return rf"\A(?:{pattern})\z"


def _is_re2(pattern: object) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), _full_match(pattern))
    except pa.ArrowInvalid:
        return False
    return True
