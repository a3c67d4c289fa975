"""Which rows a shape applies to, declared as data: a small language of comparisons, ``all``, ``any`` and ``negate``."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from airflow_provider_connect.shapes.literals import Scalar

Operator = Literal["equals", "in", "is_null", "matches", "less_than", "at_most", "greater_than", "at_least"]


class Condition(BaseModel):
    """A comparison of one column, or several conditions together.

    As in SQL, a comparison with NULL is neither true nor false but unknown, and so is its negation; only ``is_null``
    always knows. ``all`` is false if one is false, ``any`` is true if one is true, whatever is unknown beside it. A
    condition holds where it is true.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    column: str | None = Field(default=None, description="The column that is compared.")
    operator: Operator | None = Field(
        default=None,
        description="How: equals, in (one of a list), is_null, matches (the whole text fits a regular expression, "
        "RE2's), less_than, at_most, greater_than, at_least.",
    )
    value: Scalar | tuple[Scalar, ...] | None = Field(
        default=None,
        description="With what: a value of the column's type, dates and times as ISO 8601 text; for in a list of them; "
        "for is_null nothing.",
    )
    all: tuple[Condition, ...] = Field(default=(), description="Conditions that must all hold, in place of a column.")
    any: tuple[Condition, ...] = Field(
        default=(), description="Conditions of which one must hold, in place of a column."
    )
    negate: bool = Field(default=False, description="Whether it holds where it else would be false.")

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum((self.column is not None, bool(self.all), bool(self.any))) != 1:
            raise ValueError("give one of column, all and any")
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
        return f"value: {operator} takes one value" + ("; for NULL there is is_null" if value is None else "")
    if operator == "matches" and not isinstance(value, str):
        return "value: matches takes a regular expression, as text"
    return None
