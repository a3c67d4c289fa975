"""What the driver's entry calls: nothing of Spark SQL is imported without a transform."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.spark.progress import say

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.spark.context import Context
    from airflow_provider_connect.spark.states import DayFreezer
    from airflow_provider_connect.spark.transform.frames import Transformation
    from airflow_provider_connect.stage.manifest import Manifest
    from airflow_provider_connect.stage.storage import Folder


def begun(job: JobConfig, source: pa.Schema, context: Callable[[], Any]) -> tuple[Transformation | None, float]:
    """Start Spark's SQL session and try the transform on a day without rows; return it, and how many seconds it took.

    Nothing is done without a transform.

    :param source: the columns of what is polled.
    :param context: waits for the Spark context.
    :raises ConfigError: Spark does not take the transform, or its result cannot be staged.
    """
    if job.transform is None:
        return None, 0.0
    sc = context()
    started = time.monotonic()
    from airflow_provider_connect.spark.capabilities.frames import any_session  # noqa: PLC0415
    from airflow_provider_connect.spark.transform.frames import Transformation  # noqa: PLC0415

    found = Transformation(job.transform, source, any_session(sc), job.all_days[0])
    seconds = time.monotonic() - started
    say(f"transform={found.what}: Spark SQL took {seconds:.1f} s to start, and to tell its {len(found.schema)} columns")
    return found, seconds


def hint(result: pa.Schema, source: pa.Schema) -> str:
    """Return what a person should know besides of what a sink does not take: "" without a transform."""
    if result is source:
        return ""
    from airflow_provider_connect.spark.transform.columns import lost_key  # noqa: PLC0415

    return f". These are the columns of the transform's result, not of the source.{lost_key(result, source)}"


def freezing(transformation: Transformation | None, polled: DayFreezer, context: Context) -> DayFreezer:
    """Return what freezes that which is published: the results, or what was polled."""
    if transformation is None:
        return polled
    from airflow_provider_connect.spark.transform.results import ResultFreezer  # noqa: PLC0415

    return ResultFreezer(context, polled, transformation)


def figures(manifest: Manifest) -> dict[str, Any]:
    """Return what the report of a day says of its transform: nothing without one."""
    made = manifest.transformed
    if made is None:
        return {}
    return {
        "transform_seconds": made.seconds,
        "polled_contents": made.contents,
        "result_contents": manifest.polled.contents,
    }


def swept(root: Folder) -> int:
    """Delete polled days whose results nobody froze, once they are long dead; return how many files.

    Done without a transform, too: one that is given up leaves none behind.
    """
    from airflow_provider_connect.spark.transform.results import sweep  # noqa: PLC0415

    return sweep(root)
