"""OpenLineage facets of a task: datasets, columns, rows and bytes, for Airflow's OpenLineage provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.connection import Dataset
from airflow_provider_connect.errors import Failure
from airflow_provider_connect.shapes.shape import ColumnOrigins

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.operators.run import RunSpec


@dataclass(frozen=True)
class DatasetPair:
    """Source and sink of a task as lineage datasets, without connections."""

    source: Dataset
    sink: Dataset

    @classmethod
    def from_spec(cls, spec: RunSpec) -> DatasetPair | None:
        """Return the datasets of a run. None, with a warning, if they cannot be named."""
        try:
            source = spec.source.dataset(spec.connections[spec.source.conn_id])
            return cls(source, spec.sink.dataset(spec.connections))
        except Exception as error:  # noqa: BLE001
            spec.log.warning("Lineage has no name for source or sink: %s", Failure.from_error(error).message)
            return None


def column_origins(report: JobReport | None) -> ColumnOrigins:
    """Return the source columns of each target column: without shapes, the column of the same name."""
    if report is None:
        return {}
    return report.made_of or {name: (name,) for name in report.columns}


def build_facets(datasets: DatasetPair | None, report: JobReport | None) -> OperatorLineage[Any, Any]:
    """Build a task's lineage event.

    :param report: None if the task failed before its job.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415  # an extra of the package

    if datasets is None:
        return OperatorLineage()
    return OperatorLineage(inputs=[_input_dataset(datasets, report)], outputs=[_output_dataset(datasets, report)])


def build_streams_facets(pairs: Sequence[tuple[DatasetPair, JobReport]]) -> OperatorLineage[Any, Any]:
    """Build the lineage event of a task with many streams."""
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415  # an extra of the package

    return OperatorLineage(
        inputs=[_input_dataset(datasets, report) for datasets, report in pairs],
        outputs=[_output_dataset(datasets, report) for datasets, report in pairs],
    )


def _input_dataset(datasets: DatasetPair, report: JobReport | None) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import input_statistics_input_dataset as statistics  # noqa: PLC0415

    statistics_facet: dict[str, Any] = {}
    if report is not None:
        # Days published by an earlier try were not read by this one. Their figures come from the ledger.
        days_read = [day for day in report.days if day.status != "already_published"]
        statistics_facet["inputStatistics"] = statistics.InputStatisticsInputDatasetFacet(
            rowCount=sum(day.rows_read for day in days_read), size=sum(day.raw_bytes for day in days_read)
        )
    types = report.columns if report is not None else {}
    return InputDataset(*datasets.source, facets=_schema_facet(types, types), inputFacets=statistics_facet)


def _output_dataset(datasets: DatasetPair, report: JobReport | None) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset  # noqa: PLC0415
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage  # noqa: PLC0415
    from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics  # noqa: PLC0415

    statistics_facet: dict[str, Any] = {}
    if report is not None:
        # Days that were already there or unchanged were not written by this task.
        days_written = [day for day in report.days if day.status == "published"]
        statistics_facet["outputStatistics"] = statistics.OutputStatisticsOutputDatasetFacet(
            rowCount=sum(day.rows_written for day in days_written), size=sum(day.stage_bytes for day in days_written)
        )
    if report is not None and report.result_columns is not None:
        # The origin of a transform's columns is unknown.
        schema_facet = _schema_facet(report.result_columns, report.result_columns)
        return OutputDataset(*datasets.sink, facets=schema_facet, outputFacets=statistics_facet)
    column_fields = {
        name: lineage.Fields(
            inputFields=[
                lineage.InputField(*datasets.source, field=column, transformations=[_transformation(name, column)])
                for column in source_columns
            ]
        )
        for name, source_columns in column_origins(report).items()
    }
    lineage_facet = {"columnLineage": lineage.ColumnLineageDatasetFacet(fields=column_fields)} if column_fields else {}
    staged_columns = (report.staged_columns or report.columns) if report is not None else {}
    return OutputDataset(
        *datasets.sink,
        facets=_schema_facet(staged_columns, staged_columns) | lineage_facet,
        outputFacets=statistics_facet,
    )


def _transformation(name: str, source: str) -> Any:
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage  # noqa: PLC0415

    return lineage.Transformation(type="DIRECT", subtype="IDENTITY" if name == source else "TRANSFORMATION")


def _schema_facet(names: Iterable[str], types: Mapping[str, str]) -> dict[str, Any]:
    from openlineage.client.facet_v2 import schema_dataset  # noqa: PLC0415

    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=types.get(name)) for name in names]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)} if fields else {}
