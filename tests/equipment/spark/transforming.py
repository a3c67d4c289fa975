"""A transform without Spark SQL: a function over an Arrow table replaces Spark's plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.transform.results import ResultStager
from tests.equipment.spark.lab import rewired

Make = Callable[[pa.Table], pa.Table]


class FrameHere:
    """Replaces a DataFrame. Its rows come in two partitions, each in its own task."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def mapInArrow(self, freeze: Any, ddl: str) -> FrameHere:  # noqa: N802  # its own name
        half = (self.table.num_rows + 1) // 2
        pieces = [self.table.slice(0, half), self.table.slice(half)]
        self.rows = [(batch.column(0)[0].as_py(),) for piece in pieces for batch in freeze(iter(piece.to_batches()))]
        return self

    def collect(self) -> list[Any]:
        return self.rows


class TransformationHere:
    """Replaces a transform that Spark has tried."""

    label = "here()"

    def __init__(self, source: pa.Schema, make: Make, schema: pa.Schema | None = None, digest: str = "d") -> None:
        self.source, self.make, self.digest = source, make, digest
        self.schema = source if schema is None else schema
        self.calls = 0

    def compute(self, urls: list[str], day: Any) -> FrameHere:
        self.calls += 1
        tables = [pq.read_table(url, partitioning=None).cast(self.source) for url in urls]
        return FrameHere(self.make(pa.concat_tables(tables) if tables else self.source.empty_table()))


def transforming(
    days: DayRunner, make: Make, *, schema: pa.Schema | None = None, digest: str = "d"
) -> tuple[DayRunner, TransformationHere]:
    """Return a runner with a transform, and the transform."""
    here: Any = TransformationHere(days.context.intake.staged_schema, make, schema, digest)
    outlet = dataclasses.replace(days.context.outlet, published_schema=here.schema)
    context = dataclasses.replace(days.context, outlet=outlet, is_transformed=True)
    days = rewired(days, context=context)
    return dataclasses.replace(days, stager=ResultStager(context, days.stager, here)), here
