"""The shape that names columns anew: ``rename``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.shapes.shape import (
    Columns,
    Shape,
    Shaped,
    Step,
    require,
    taken,
    unknown_columns,
    values_in,
)

if TYPE_CHECKING:
    import pyarrow as pa


class Rename(Shape):
    """Gives columns other names; place, type and comment stay. Counts the values in them.

    Two columns may change names with each other. Options of a sink that name columns, such as ``key``, have the new
    names.
    """

    name: ClassVar[str] = "rename"

    columns: dict[str, str] = Field(min_length=1, description="By the name before, the name behind it.")

    def after(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with the new names.

        :raises ConfigError: there is no such column, or two would have one name.
        """
        import pyarrow as pa

        fields = [field.with_name(self.columns.get(field.name, field.name)) for field in schema]
        empty = [f"column {old!r}: the new name is empty" for old, new in self.columns.items() if not new]
        others = [name for name in schema.names if name not in self.columns]
        require(unknown_columns(self.columns, schema) + empty + taken([*self.columns.values()], others))
        return pa.schema(fields, metadata=schema.metadata)

    def lineage(self, schema: pa.Schema, made_of: Columns) -> Columns:
        """Return the columns under their new names."""
        return {self.columns.get(name, name): sources for name, sources in made_of.items()}

    def bind(self, schema: pa.Schema, connections: Mapping[str, Connection]) -> Step:
        """Return what names the columns anew; nothing is copied."""
        import pyarrow as pa

        after = self.after(schema)
        named = [schema.get_field_index(name) for name in self.columns]

        def step(batch: pa.RecordBatch) -> Shaped:
            columns = batch.columns
            made = pa.RecordBatch.from_arrays(columns, schema=after)
            return Shaped(made, values_in(columns[at] for at in named))

        return step
