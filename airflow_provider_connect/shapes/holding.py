"""Where a condition holds, in Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.literals import literal
from airflow_provider_connect.shapes.shape import unknown_columns
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import is_text, plain_type, shape_of

if TYPE_CHECKING:
    import pyarrow as pa

Test = Callable[["pa.RecordBatch"], "pa.BooleanArray"]

_ORDERS = {"less_than": "less", "at_most": "less_equal", "greater_than": "greater", "at_least": "greater_equal"}


def problems(condition: Condition | None, schema: pa.Schema) -> list[str]:
    """Return what does not fit a schema: unknown columns, and values that their type does not have."""
    if condition is None:
        return []
    if condition.column is None:
        return [text for part in (*condition.all, *condition.any) for text in problems(part, schema)]
    if found := unknown_columns([condition.column], schema):
        return found
    problem = _comparison_problem(condition, schema.field(condition.column).type)
    return [f"column {condition.column!r}: {problem}"] if problem else []


def _comparison_problem(condition: Condition, kind: pa.DataType) -> str | None:
    if condition.operator == "is_null":
        return None
    if condition.operator == "matches":
        if not is_text(kind):
            return f"matches compares texts, and it is {kind}"
        return None if _is_re2(condition.value) else "RE2 does not take this regular expression"
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    is_fit = all(value is not None and literal(value, kind) is not None for value in values)
    return None if is_fit else f"{condition.operator} needs a value of its type, which is {kind}"


def holds_of(condition: Condition, schema: pa.Schema) -> Test:
    """Return what tells for each row of a batch whether a condition holds: true, false, or NULL for unknown.

    :param condition: without problems in the schema.
    """
    import pyarrow.compute as pc

    test = _whole(condition, schema)
    return (lambda batch: pc.invert(test(batch))) if condition.negate else test


def rows_of(condition: Condition | None, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.BooleanArray | None]:
    """Return what tells for each row whether a condition holds: true or false; None for all rows."""
    if condition is None:
        return lambda batch: None
    test = holds_of(condition, schema)
    return lambda batch: test(batch).fill_null(False)  # noqa: FBT003


def _whole(condition: Condition, schema: pa.Schema) -> Test:
    import pyarrow.compute as pc

    if condition.all:
        return _together([holds_of(part, schema) for part in condition.all], pc.and_kleene)
    if condition.any:
        return _together([holds_of(part, schema) for part in condition.any], pc.or_kleene)
    return _comparison(condition, schema)


def _together(tests: Sequence[Test], how: Callable[..., pa.BooleanArray]) -> Test:
    return lambda batch: reduce(how, [test(batch) for test in tests])


def _comparison(condition: Condition, schema: pa.Schema) -> Test:
    import pyarrow as pa
    import pyarrow.compute as pc

    at = schema.get_field_index(str(condition.column))
    kind, value = plain_type(schema.field(at).type), condition.value
    if condition.operator == "is_null":
        return lambda batch: without_dictionary(batch.column(at)).is_null()

    def column(batch: pa.RecordBatch) -> pa.Array:
        array = without_dictionary(batch.column(at))
        return array.cast(pa.large_string()) if shape_of(kind) == "text" else array

    if shape_of(kind) == "text":
        kind = pa.large_string()
    if condition.operator == "matches":
        pattern = _whole_text(value)
        return lambda batch: pc.match_substring_regex(column(batch), pattern)
    if isinstance(value, tuple):
        wanted = pa.array([literal(each, kind).as_py() for each in value], kind)

        def one_of(batch: pa.RecordBatch) -> pa.BooleanArray:
            array = column(batch)
            return pc.if_else(array.is_valid(), pc.is_in(array, wanted), pa.scalar(None, pa.bool_()))

        return one_of
    compare = getattr(pc, _ORDERS.get(str(condition.operator), "equal"))
    scalar = literal(value, kind)  # type: ignore[arg-type]  # every other operator has a value
    return lambda batch: compare(column(batch), scalar)


def _whole_text(pattern: object) -> str:
    return rf"\A(?:{pattern})\z"


def _is_re2(pattern: object) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), _whole_text(pattern))
    except pa.ArrowInvalid:
        return False
    return True
