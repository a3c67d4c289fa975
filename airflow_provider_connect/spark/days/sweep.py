"""The last step: deletes the stage of a published day and, once a job, the files of dead attempts."""

from __future__ import annotations

from collections.abc import Callable

from airflow_provider_connect.capabilities.publisher import Sweeps
from airflow_provider_connect.errors import ConnectError, Failure
from airflow_provider_connect.spark.context import Outlet
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.transform import entry as transforming
from airflow_provider_connect.stage import temporary
from airflow_provider_connect.stage.manifest import Manifest


def delete_stage(outlet: Outlet, manifest: Manifest) -> None:
    """Delete a day's staged files once no publish needs them, unless the sink keeps its stage.

    After a failure, a later sweep tries again.
    """
    if outlet.keeps_stage:
        return
    try:
        temporary.delete_staged_day(outlet.root, manifest)
    except ConnectError as error:
        log_line(f"day {manifest.day}: staged files could not be deleted: {error}")


def sweep(outlet: Outlet) -> int:
    """Delete files of dead attempts in the sink and in the stage. Returns their number."""
    root = outlet.root
    files = sweep_quietly(outlet.sink.target, outlet.publisher.sweep) if isinstance(outlet.publisher, Sweeps) else 0
    files += sweep_quietly(root.url, lambda: transforming.sweep_polled(root))
    if not outlet.keeps_stage:
        files += sweep_quietly(
            root.url, lambda: temporary.sweep_stage(root, root.storage_time() - temporary.DEAD_AFTER)
        )
    return files


def sweep_quietly(location: str, delete: Callable[[], int]) -> int:
    """Call ``delete`` and return its number of files. A failure is only logged."""
    try:
        return delete()
    except Exception as error:  # noqa: BLE001
        log_line(f"files of dead attempts under {location} could not be swept: {Failure.from_error(error).message}")
        return 0
