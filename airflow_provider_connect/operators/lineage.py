"""What a task tells OpenLineage: from where to where, which columns, how many rows and bytes.

Airflow's OpenLineage provider asks the operator once its task has ended; without that provider nothing here is called.
There is nothing to tell at the start but the asset, which the provider takes from the task's outlets by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_connect.connection import Dataset
from airflow_provider_connect.errors import Failure

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.operators.run import Order

Columns = Mapping[str, Sequence[str]]
"""By column of the target, the columns of the source that it is made of."""


class Shape(Protocol):
    """Something between source and target that changes columns."""

    def columns(self, made_of: Columns) -> Columns:
        """Return the columns behind it, given those before it."""


@dataclass(frozen=True)
class Way:
    """From where to where a task moves rows, as lineage calls it. No connection: Airflow shows operators to people."""

    source: Dataset
    sink: Dataset

    @classmethod
    def of(cls, order: Order) -> Way | None:
        """Return the way of an order; None if it has no name, for lineage must not fail a task."""
        try:
            source = order.source.dataset(order.connections[order.source.conn_id])
            return cls(source, order.sink.dataset(order.connections))
        except Exception as error:  # noqa: BLE001
            order.log.warning("Lineage has no name for source or sink: %s", Failure.of(error).message)
            return None


def columns(names: Iterable[str], shapes: Sequence[Shape] = ()) -> Columns:
    """Return what each column of the target is made of: the column of the same name, unless shapes say otherwise."""
    made_of: Columns = {name: (name,) for name in names}
    for shape in shapes:
        made_of = shape.columns(made_of)
    return made_of


def facets(way: Way | None, report: JobReport | None) -> OperatorLineage[Any, Any]:
    """Return what the provider puts into its event.

    :param report: of what was done; None if nothing was, as the task failed before.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415  # an extra of the package

    if way is None:
        return OperatorLineage()
    return OperatorLineage(inputs=[_input(way, report)], outputs=[_output(way, report)])


def _input(way: Way, report: JobReport | None) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics  # noqa: PLC0415

    told: dict[str, Any] = {}
    if report is not None:
        # What an earlier try has published, this one has not read: the ledger told its figures.
        read = [day for day in report.days if day.status != "already_published"]
        told["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(
            rowCount=sum(day.rows_read for day in read), size=sum(day.raw_bytes for day in read)
        )
    types = report.columns if report is not None else {}
    return InputDataset(*way.source, facets=_schema(types, types), inputFacets=told)


def _output(way: Way, report: JobReport | None) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage  # noqa: PLC0415
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics  # noqa: PLC0415

    told: dict[str, Any] = {}
    if report is not None:
        # What was there already, or was found unchanged, this task has not written.
        written = [day for day in report.days if day.status == "published"]
        told["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
            rowCount=sum(day.rows_written for day in written), size=sum(day.stage_bytes for day in written)
        )
    if report is not None and report.result_columns is not None:
        # What a transform makes its columns of, only it knows.
        return OutputDataset(*way.sink, facets=_schema(report.result_columns, report.result_columns), outputFacets=told)
    types = report.columns if report is not None else {}
    made_of = columns(types)
    of_columns = {
        name: lineage.Fields(
            inputFields=[
                lineage.InputField(*way.source, field=each, transformations=[_transformation(name, each)])
                for each in sources
            ]
        )
        for name, sources in made_of.items()
    }
    about = {"columnLineage": lineage.ColumnLineageDatasetFacet(fields=of_columns)} if of_columns else {}
    return OutputDataset(*way.sink, facets=_schema(made_of, types) | about, outputFacets=told)


def _transformation(name: str, source: str) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage  # noqa: PLC0415

    return lineage.Transformation(type="DIRECT", subtype="IDENTITY" if name == source else "TRANSFORMATION")


def _schema(names: Iterable[str], types: Mapping[str, str]) -> dict[str, Any]:
    from openlineage.client.facet_v2 import schema_dataset  # noqa: PLC0415

    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=types.get(name)) for name in names]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}
