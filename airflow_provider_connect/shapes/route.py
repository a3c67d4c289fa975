"""The shape that adds the column by which a sink chooses a row's table or topic: ``route``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.holding import problems, rows_of
from airflow_provider_connect.shapes.shape import Columns, Shape, Shaped, Step, require, taken
from airflow_provider_connect.shapes.templates import Template, columns_in, template_problems, texts_of

if TYPE_CHECKING:
    import pyarrow as pa


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

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the column behind the others.

        :raises ConfigError: there is such a column, or a template or a condition does not fit the schema.
        """
        import pyarrow as pa

        wrong = taken([self.column], schema.names)
        for case in self.cases:
            wrong += problems(case.when, schema)
        for template in self._templates_of_all:
            wrong += template_problems(template, schema)
        require(list(dict.fromkeys(wrong)))
        parts = {name for template in self._templates_of_all for name in columns_in(template)}
        is_nullable = any(schema.field(name).nullable for name in parts)
        return schema.append(pa.field(self.column, pa.string(), is_nullable, {"few_values": "yes"}))

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return the columns, and the new one that is made of those that its templates name."""
        parts = [name for template in self._templates_of_all for name in columns_in(template)]
        sources = dict.fromkeys(source for name in parts for source in made_of.get(name, ()))
        return {**made_of, self.column: tuple(sources)}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        after, default = self.after(schema), texts_of(self.default, schema)
        # The last case first: what an earlier one says then takes its place.
        cases = [(rows_of(case.when, schema), texts_of(case.to, schema)) for case in reversed(self.cases)]

        def step(batch: pa.RecordBatch) -> Shaped:
            made = default(batch)
            for rows, texts in cases:
                made = pc.if_else(rows(batch), texts(batch), made)
            made = made if isinstance(made, pa.Array) else pa.repeat(made, batch.num_rows)
            return Shaped(pa.RecordBatch.from_arrays([*batch.columns, made], schema=after), len(made) - made.null_count)

        return step
