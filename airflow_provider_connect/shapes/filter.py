"""The shape that leaves rows out: ``filter``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.condition import Condition
from airflow_provider_connect.shapes.holding import problems, rows_of
from airflow_provider_connect.shapes.shape import Columns, Shape, Shaped, Step, require

if TYPE_CHECKING:
    import pyarrow as pa


class Filter(Shape):
    """Keeps the rows where a condition holds. Counts those that it leaves out, and those of all filters together."""

    name: ClassVar[str] = "filter"

    where: Condition = Field(description="Which rows are kept: those where it is true, neither false nor unknown.")

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema as it is.

        :raises ConfigError: the condition names a column that is not there, or a value that is not of its type.
        """
        require(problems(self.where, schema))
        return schema

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return the columns as they are."""
        return made_of

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what leaves rows out; a batch of which all stay is not copied."""
        require(problems(self.where, schema))
        rows = rows_of(self.where, schema)

        def step(batch: pa.RecordBatch) -> Shaped:
            kept = rows(batch)
            out = batch.num_rows - (batch.num_rows if kept is None else kept.true_count)
            return Shaped(batch.filter(kept) if out else batch, out)

        return step
