"""Shapes that add a column: ``constant``, and ``route``, which selects a row's table or topic."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import refuse_any
from airflow_provider_connect.shapes.condition import (
    Condition,
    Scalar,
    bind_row_filter,
    condition_problems,
    typed_literal,
)
from airflow_provider_connect.shapes.shape import (
    ColumnOrigins,
    Shape,
    ShapedBatch,
    Step,
    TypeName,
    name_conflicts,
    unknown_column_problems,
)
from airflow_provider_connect.values.arrays import without_dictionary
from airflow_provider_connect.values.arrow import type_group
from airflow_provider_connect.values.ddl import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


class Constant(Shape):
    """Adds a column with one value, in the last position."""

    name: ClassVar[str] = "constant"

    column: str = Field(min_length=1, description="Name of the new column.")
    type: TypeName = Field(default="STRING", description="Its type as in Spark's DDL, such as BIGINT.")
    value: Scalar = Field(description="Its value. Dates and times are ISO 8601 texts.")
    when: Condition | None = Field(
        default=None, description="Rows with the value. Other rows have NULL. By default all rows have it."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new column at the end."""
        import pyarrow as pa

        wrong = name_conflicts([self.column], schema.names) + condition_problems(self.when, schema)
        if typed_literal(self.value, arrow_type(self.type)) is None:
            wrong.append(f"value: it is not a {self.type}")
        refuse_any(wrong)
        few = {"few_values": "yes"} if self.type == "STRING" else None
        return schema.append(pa.field(self.column, arrow_type(self.type), self.when is not None, few))

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins. The new column has none."""
        return {**origins, self.column: ()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        result_schema = self.result_schema(schema)
        value, rows = typed_literal(self.value, arrow_type(self.type)), bind_row_filter(self.when, schema)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            is_selected = rows(batch)
            if is_selected is None:
                column = pa.repeat(value, batch.num_rows)
            else:
                column = pc.if_else(is_selected, value, pa.scalar(None, value.type))
            return ShapedBatch(
                pa.RecordBatch.from_arrays([*batch.columns, column], schema=result_schema),
                len(column) - column.null_count,
            )

        return step


_PLACEHOLDER = re.compile(r"\{([^{}:]+)(?::([^{}]+))?\}")
_TIME_FORMAT = re.compile(r"(?:%[YmdH]|[A-Za-z0-9_-])+")
_NAMEABLE = ("text", "integer", "boolean", "date")


def _valid_template(template: str) -> str:
    fixed = _PLACEHOLDER.sub("", template)
    if "{" in fixed or "}" in fixed:
        raise ValueError("unbalanced brace: put columns in braces, such as {country}")
    for _, form in _PLACEHOLDER.findall(template):
        if form and not _TIME_FORMAT.fullmatch(form):
            raise ValueError(f"{form!r}: a time format may contain %Y, %m, %d and %H, letters, digits, '_' and '-'")
    return template


Template = Annotated[str, Field(min_length=1), AfterValidator(_valid_template)]


def template_columns(template: str) -> list[str]:
    """Return the columns in a template's braces."""
    return [name for name, _ in _PLACEHOLDER.findall(template)]


def template_problems(template: str, schema: pa.Schema) -> list[str]:
    """Return a problem for each column of a template that is unknown or cannot be part of a name."""
    problems = unknown_column_problems(template_columns(template), schema)
    for name, form in _PLACEHOLDER.findall(template):
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        if form and type_group(kind) not in ("timestamp", "date"):
            problems.append(f"column {name!r}: {form!r} is for times and dates, but the column is {kind}")
        elif not form and type_group(kind) not in _NAMEABLE:
            hint = ". Add a format, such as {" + name + ":%Y_%m}" if type_group(kind) == "timestamp" else ""
            problems.append(f"column {name!r}: {kind} cannot name a table or topic{hint}")
    return problems


def bind_template(template: str, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array | pa.Scalar]:
    """Return a function that fills a template for each row of a batch. NULL if one of its columns is NULL.

    A scalar without columns.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[pa.Scalar | tuple[int, str]] = []
    start = 0
    for part in _PLACEHOLDER.finditer(template):
        pieces += [pa.scalar(template[start : part.start()]), (schema.get_field_index(part[1]), part[2] or "")]
        start = part.end()
    pieces.append(pa.scalar(template[start:]))

    def texts(batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        columns = [_text(batch.column(piece[0]), piece[1]) if isinstance(piece, tuple) else piece for piece in pieces]
        return columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, pa.scalar(""))

    return texts


def _text(array: pa.Array, form: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = without_dictionary(array)
    if not form:
        return array.cast(pa.string())
    if type_group(array.type) == "timestamp" and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
    return pc.strftime(array, format=form)


class Case(BaseModel):
    """A condition that selects rows, and the column's value for them."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    to: Template = Field(description="Value of the column for these rows, written like default.")
    when: Condition = Field(description="Condition that selects the rows.")


class Route(Shape):
    """Adds a column that names each row's table or topic.

    The sink reads it through a template: ``path="…/{table}"``, ``table="data.{table}"``, ``topic="{topic}"``.
    """

    name: ClassVar[str] = "route"

    column: str = Field(min_length=1, description="Name of the new column, the one that the sink's template names.")
    cases: tuple[Case, ...] = Field(
        default=(), description="Groups of rows and their values. The first case whose condition holds counts."
    )
    default: Template = Field(
        description="Value of all other rows. Columns in braces stand for their values: 'events_{country}', "
        "'events_{time:%Y_%m}' in UTC. NULL if one of these columns is NULL."
    )

    @property
    def _target_templates(self) -> list[str]:
        return [*(case.to for case in self.cases), self.default]

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new column at the end."""
        import pyarrow as pa

        wrong = name_conflicts([self.column], schema.names)
        for case in self.cases:
            wrong += condition_problems(case.when, schema)
        for template in self._target_templates:
            wrong += template_problems(template, schema)
        refuse_any(list(dict.fromkeys(wrong)))
        parts = {name for template in self._target_templates for name in template_columns(template)}
        is_nullable = any(schema.field(name).nullable for name in parts)
        return schema.append(pa.field(self.column, pa.string(), is_nullable, {"few_values": "yes"}))

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the origins, with those of the columns in the templates."""
        parts = [name for template in self._target_templates for name in template_columns(template)]
        sources = dict.fromkeys(source for name in parts for source in origins.get(name, ()))
        return {**origins, self.column: tuple(sources)}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return a function that adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        result_schema, default = self.result_schema(schema), bind_template(self.default, schema)
        # The last case first, so that earlier cases overwrite it.
        cases = [(bind_row_filter(case.when, schema), bind_template(case.to, schema)) for case in reversed(self.cases)]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            targets = default(batch)
            for rows, texts in cases:
                targets = pc.if_else(rows(batch), texts(batch), targets)
            targets = targets if isinstance(targets, pa.Array) else pa.repeat(targets, batch.num_rows)
            return ShapedBatch(
                pa.RecordBatch.from_arrays([*batch.columns, targets], schema=result_schema),
                len(targets) - targets.null_count,
            )

        return step
