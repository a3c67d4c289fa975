"""The shape that adds a column with one value: ``constant``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.holding import problems, rows_of
from airflow_provider_connect.shapes.literals import Scalar, literal
from airflow_provider_connect.shapes.names import TypeName
from airflow_provider_connect.shapes.shape import Columns, Shape, Shaped, Step, require, taken
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

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the column behind the others.

        :raises ConfigError: there is such a column, the value is not of the type, or the condition does not fit.
        """
        import pyarrow as pa

        wrong = taken([self.column], schema.names) + problems(self.when, schema)
        if literal(self.value, arrow_type(self.type)) is None:
            wrong.append(f"value: it is no {self.type}")
        require(wrong)
        few = {"few_values": "yes"} if self.type == "STRING" else None
        return schema.append(pa.field(self.column, arrow_type(self.type), self.when is not None, few))

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return the columns, and the new one that is made of none."""
        return {**made_of, self.column: ()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what adds the column."""
        import pyarrow as pa
        import pyarrow.compute as pc

        after = self.after(schema)
        value, rows = literal(self.value, arrow_type(self.type)), rows_of(self.when, schema)

        def step(batch: pa.RecordBatch) -> Shaped:
            where = rows(batch)
            if where is None:
                made = pa.repeat(value, batch.num_rows)
            else:
                made = pc.if_else(where, value, pa.scalar(None, value.type))
            return Shaped(pa.RecordBatch.from_arrays([*batch.columns, made], schema=after), len(made) - made.null_count)

        return step
