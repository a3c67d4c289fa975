"""The driver's entry points to transforms. Without a transform, they do not import Spark SQL."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.spark.progress import log_line

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.spark.context import JobContext
    from airflow_provider_connect.spark.states import DayStager
    from airflow_provider_connect.spark.transform.transformation import Transformation
    from airflow_provider_connect.stage.manifest import Manifest
    from airflow_provider_connect.stage.storage import Folder


def start_transformation(
    job: JobConfig, staged_schema: pa.Schema, wait_for_context: Callable[[], Any]
) -> tuple[Transformation | None, float]:
    """Start Spark's SQL session and try the transform on a day without rows.

    Returns the transformation and the seconds that this took, or ``(None, 0.0)`` without a transform.

    :raises ConfigError: Spark refuses the transform, or its result cannot be staged.
    """
    if job.transform is None:
        return None, 0.0
    sc = wait_for_context()
    started = time.monotonic()
    from airflow_provider_connect.spark.capabilities.frame_polling import plain_session  # noqa: PLC0415
    from airflow_provider_connect.spark.transform.transformation import Transformation  # noqa: PLC0415

    transformation = Transformation(job.transform, staged_schema, plain_session(sc), job.all_days[0])
    seconds = time.monotonic() - started
    log_line(
        f"transform={transformation.label}: Spark SQL took {seconds:.1f} s to start and to resolve "
        f"{len(transformation.schema)} columns"
    )
    return transformation, seconds


def result_hint(result: pa.Schema, staged_schema: pa.Schema) -> str:
    """Return a hint for the sink's error about columns, or "" without a transform."""
    if result is staged_schema:
        return ""
    from airflow_provider_connect.spark.transform.columns import missing_key_hint  # noqa: PLC0415

    return (
        ". These are the columns of the transform's result, not of the source."
        f"{missing_key_hint(result, staged_schema)}"
    )


def stager_for(transformation: Transformation | None, polled_stager: DayStager, context: JobContext) -> DayStager:
    """Return the stager of the rows to publish: a transform's results, or the polled rows."""
    if transformation is None:
        return polled_stager
    from airflow_provider_connect.spark.transform.results import ResultStager  # noqa: PLC0415

    return ResultStager(context, polled_stager, transformation)


def report_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the report's fields about a day's transform, or {} without one."""
    transformed = manifest.transformed
    if transformed is None:
        return {}
    return {
        "transform_seconds": transformed.seconds,
        "polled_contents": transformed.contents,
        "result_contents": manifest.polled.contents,
    }


def sweep_polled(root: Folder) -> int:
    """Delete polled days that dead attempts did not transform. Returns the number of files.

    Also runs without a transform, because an earlier job may have had one.
    """
    from airflow_provider_connect.spark.transform.results import sweep  # noqa: PLC0415

    return sweep(root)
