"""A Delta table that is merged by key, and rows for it as tuples."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_provider_connect.sink import LedgerRow, Publish
from tests.equipment.delta.lab import MAY, Lab

ROWS = pa.schema(
    [pa.field("id", pa.int64()), pa.field("value", pa.string()), ("version", pa.float64()), ("gone", pa.bool_())]
)
DAYS = [MAY + dt.timedelta(days=number) for number in range(9)]

Row = tuple[Any, ...]
"""Values of the schema's columns. Missing ones are NULL."""


class MergeLab(Lab):
    """One merged table and its sink.

    :param schema: columns of the rows that are staged.
    """

    def __init__(self, root: Path, schema: pa.Schema = ROWS, **options: Any) -> None:
        super().__init__(root, **({"write_mode": "merge", "key": (schema.names[0],)} | options))
        self.schema = schema

    def made(self, kind: Any = "day") -> MergeLab:
        self.make(self.schema, kind)
        return self

    def stage_rows(self, day: dt.date, rows: Sequence[Row], token: str = "", **more: Any) -> Publish:
        schema = more.pop("schema", self.schema)
        columns = {
            name: pa.array([row[i] if i < len(row) else None for row in rows], schema.field(name).type)
            for i, name in enumerate(schema.names)
        }
        events = ["row"] * len(rows)
        return self.stage(day, events, token or f"t{day}", schema=schema, others=columns, **more)

    def put(self, day: dt.date, rows: Sequence[Row], token: str = "", **more: Any) -> LedgerRow:
        return self.commit(self.stage_rows(day, rows, token, **more))

    def shown(self, *columns: str) -> list[Row]:
        """Read the table as any reader of Delta would. Each key has one row."""
        names = columns or (self.schema.names[0], "value")
        table = DeltaTable(str(self.root)).to_pyarrow_table()
        keys = [tuple(row[name] for name in self.sink.key) for row in table.to_pylist()]
        assert len(keys) == len(set(keys))
        return sorted(tuple(row[name] for name in names) for row in table.to_pylist())
