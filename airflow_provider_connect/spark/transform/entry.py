"""What the driver's entry calls: nothing of Spark SQL is imported without a transform."""

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
    """Start Spark's SQL session and try the transform on a day without rows; return it, and how many seconds it took.

    Nothing is done without a transform.

    :param source: the columns of what is polled.
    :param context: waits for the Spark context.
    :raises ConfigError: Spark does not take the transform, or its result cannot be staged.
    """
    if job.transform is None:
        return None, 0.0
    sc = wait_for_context()
    started = time.monotonic()
    from airflow_provider_connect.spark.capabilities.frame_polling import plain_session  # noqa: PLC0415
    from airflow_provider_connect.spark.transform.transformation import Transformation  # noqa: PLC0415

    found = Transformation(job.transform, staged_schema, plain_session(sc), job.all_days[0])
    seconds = time.monotonic() - started
    log_line(
        f"transform={found.label}: Spark SQL took {seconds:.1f} s to start, and to tell its {len(found.schema)} columns"
    )
    return found, seconds


def result_hint(result: pa.Schema, staged_schema: pa.Schema) -> str:
    """Return what a person should know besides of what a sink does not take: "" without a transform."""
    if result is staged_schema:
        return ""
    from airflow_provider_connect.spark.transform.columns import missing_key_hint  # noqa: PLC0415

    return f". These are the columns of the transform's result, not of the source.{missing_key_hint(result, staged_schema)}"


def stager_for(transformation: Transformation | None, polled_stager: DayStager, context: JobContext) -> DayStager:
    """Return what freezes that which is published: the results, or what was polled."""
    if transformation is None:
        return polled_stager
    from airflow_provider_connect.spark.transform.results import ResultStager  # noqa: PLC0415

    return ResultStager(context, polled_stager, transformation)


def report_fields(manifest: Manifest) -> dict[str, Any]:
    """Return what the report of a day says of its transform: nothing without one."""
    made = manifest.transformed
    if made is None:
        return {}
    return {
        "transform_seconds": made.seconds,
        "polled_contents": made.contents,
        "result_contents": manifest.polled.contents,
    }


def sweep_polled(root: Folder) -> int:
    """Delete polled days whose results nobody froze, once they are long dead; return how many files.

    Done without a transform, too: one that is given up leaves none behind.
    """
    from airflow_provider_connect.spark.transform.results import sweep  # noqa: PLC0415

    return sweep(root)
