"""Shapes that add a column: ``constant``, and ``route``, by which a sink chooses a row's table or topic."""

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
    """Adds a column at the end that has one value. Counts the values."""

    name: ClassVar[str] = "constant"

    column: str = Field(min_length=1, description="Name of the new column.")
    type: TypeName = Field(default="STRING", description="Its type, as Spark's DDL has it, such as BIGINT.")
    value: Scalar = Field(description="Its value; dates and times as ISO 8601 text.")
    when: Condition | None = Field(
        default=None, description="Which rows have the value; all others have NULL. By default all have it."
    )

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the column behind the others.

        :raises ConfigError: there is such a column, the value is not of the type, or the condition does not fit.
        """
        import pyarrow as pa

        wrong = name_conflicts([self.column], schema.names) + condition_problems(self.when, schema)
        if typed_literal(self.value, arrow_type(self.type)) is None:
            wrong.append(f"value: it is no {self.type}")
        refuse_any(wrong)
        few = {"few_values": "yes"} if self.type == "STRING" else None
        return schema.append(pa.field(self.column, arrow_type(self.type), self.when is not None, few))

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the columns, and the new one that is made of none."""
        return {**origins, self.column: ()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        after = self.result_schema(schema)
        value, rows = typed_literal(self.value, arrow_type(self.type)), bind_row_filter(self.when, schema)

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            where = rows(batch)
            if where is None:
                made = pa.repeat(value, batch.num_rows)
            else:
                made = pc.if_else(where, value, pa.scalar(None, value.type))
            return ShapedBatch(
                pa.RecordBatch.from_arrays([*batch.columns, made], schema=after), len(made) - made.null_count
            )

        return step


_PART = re.compile(r"\{([^{}:]+)(?::([^{}]+))?\}")
_FORMAT = re.compile(r"(?:%[YmdH]|[A-Za-z0-9_-])+")
_NAMEABLE = ("text", "integer", "boolean", "date")


def _checked(template: str) -> str:
    fixed = _PART.sub("", template)
    if "{" in fixed or "}" in fixed:
        raise ValueError("a brace is open: columns stand in braces, such as {country}")
    for _, form in _PART.findall(template):
        if form and not _FORMAT.fullmatch(form):
            raise ValueError(f"{form!r}: a time has %Y, %m, %d and %H, with letters, digits, '_' and '-' between them")
    return template


Template = Annotated[str, Field(min_length=1), AfterValidator(_checked)]


def template_columns(template: str) -> list[str]:
    """Return the columns that a template names."""
    return [name for name, _ in _PART.findall(template)]


def template_problems(template: str, schema: pa.Schema) -> list[str]:
    """Return what in a template does not fit a schema."""
    found = unknown_column_problems(template_columns(template), schema)
    for name, form in _PART.findall(template):
        if name not in schema.names:
            continue
        kind = schema.field(name).type
        if form and type_group(kind) not in ("timestamp", "date"):
            found.append(f"column {name!r}: {form!r} is for times and dates, and it is {kind}")
        elif not form and type_group(kind) not in _NAMEABLE:
            hint = "; say how, such as {" + name + ":%Y_%m}" if type_group(kind) == "timestamp" else ""
            found.append(f"column {name!r}: {kind} names no table or topic{hint}")
    return found


def bind_template(template: str, schema: pa.Schema) -> Callable[[pa.RecordBatch], pa.Array | pa.Scalar]:
    """Return what makes each row's text of a template; NULL where a column is. A template without columns is a scalar.

    :param template: without problems in the schema.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    pieces: list[pa.Scalar | tuple[int, str]] = []
    at = 0
    for part in _PART.finditer(template):
        pieces += [pa.scalar(template[at : part.start()]), (schema.get_field_index(part[1]), part[2] or "")]
        at = part.end()
    pieces.append(pa.scalar(template[at:]))

    def texts(batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        made = [_text(batch.column(piece[0]), piece[1]) if isinstance(piece, tuple) else piece for piece in pieces]
        return made[0] if len(made) == 1 else pc.binary_join_element_wise(*made, pa.scalar(""))

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
    """Some rows, and where they go."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    to: Template = Field(description="Their value of the column, as default.")
    when: Condition = Field(description="Which rows.")


class Route(Shape):
    """Adds a column that names each row's table or topic. Counts the values.

    A sink reads it by a template: ``path="…/{table}"`` of :class:`.DeltaSink`, ``table="data.{table}"`` of
    :class:`.BigQuerySink`, ``topic="{topic}"`` of :class:`.KafkaSink`.
    """

    name: ClassVar[str] = "route"

    column: str = Field(min_length=1, description="Name of the new column, the one that the sink's template names.")
    cases: tuple[Case, ...] = Field(default=(), description="Rows and where they go; the first case that holds counts.")
    default: Template = Field(
        description="The value of all other rows. Columns in braces stand for their values: 'events_{country}', "
        "'events_{time:%Y_%m}' in UTC. It is NULL where one of them is."
    )

    @property
    def _templates_of_all(self) -> list[str]:
        return [*(case.to for case in self.cases), self.default]

    def result_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the column behind the others.

        :raises ConfigError: there is such a column, or a template or a condition does not fit the schema.
        """
        import pyarrow as pa

        wrong = name_conflicts([self.column], schema.names)
        for case in self.cases:
            wrong += condition_problems(case.when, schema)
        for template in self._templates_of_all:
            wrong += template_problems(template, schema)
        refuse_any(list(dict.fromkeys(wrong)))
        parts = {name for template in self._templates_of_all for name in template_columns(template)}
        is_nullable = any(schema.field(name).nullable for name in parts)
        return schema.append(pa.field(self.column, pa.string(), is_nullable, {"few_values": "yes"}))

    def lineage(self, schema: pa.Schema, origins: ColumnOrigins) -> ColumnOrigins:
        """Return the columns, and the new one that is made of those that its templates name."""
        parts = [name for template in self._templates_of_all for name in template_columns(template)]
        sources = dict.fromkeys(source for name in parts for source in origins.get(name, ()))
        return {**origins, self.column: tuple(sources)}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        after, default = self.result_schema(schema), bind_template(self.default, schema)
        # The last case first: what an earlier one says then takes its place.
        cases = [(bind_row_filter(case.when, schema), bind_template(case.to, schema)) for case in reversed(self.cases)]

        def step(batch: pa.RecordBatch) -> ShapedBatch:
            made = default(batch)
            for rows, texts in cases:
                made = pc.if_else(rows(batch), texts(batch), made)
            made = made if isinstance(made, pa.Array) else pa.repeat(made, batch.num_rows)
            return ShapedBatch(
                pa.RecordBatch.from_arrays([*batch.columns, made], schema=after), len(made) - made.null_count
            )

        return step
