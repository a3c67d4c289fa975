"""How a job gets to spark-submit: the connection's master, and the files and settings of one submission."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_connect.connection import write_connections
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.job import SealedConnections
from airflow_provider_connect.sink import Connections
from airflow_provider_connect.submit import launch, sealed

if TYPE_CHECKING:
    from airflow.sdk.types import Logger


@dataclass(frozen=True)
class Submission:
    """Parameters for spark-submit, named like the arguments of Airflow's operator."""

    application: str
    application_args: list[str]
    conf: dict[str, Any]
    env_vars: dict[str, Any] | None
    py_files: str | None
    files: str | None


class SparkSettings(NamedTuple):
    """A task's settings of spark-submit, named like the arguments of Airflow's operator."""

    conf: dict[str, Any]
    env_vars: dict[str, Any]
    py_files: str | None
    files: str | None


class SparkTarget(NamedTuple):
    """The cluster, or the local Spark, of a Spark connection."""

    conn_id: str
    master: str
    deploy_mode: str
    binary: str

    @classmethod
    def resolve(cls, conn_id: str, deploy_mode: str | None) -> SparkTarget:
        """Read the Spark connection.

        :raises ConfigError: its master cannot run Python in its deploy mode.
        """
        # The hook converts a connection to a master. With any keytab set, it does not write the connection's to disk.
        hook = SparkSubmitHook(conn_id=conn_id, deploy_mode=deploy_mode, keytab="not-used")
        target = cls(
            conn_id,
            hook._connection["master"],
            hook._connection["deploy_mode"] or "client",
            hook._connection["spark_binary"],
        )
        if target.is_cluster and target.master.startswith("spark://"):
            raise ConfigError(
                f"Spark connection {conn_id!r}: a standalone cluster cannot run Python in deploy mode 'cluster'. "
                "Use 'client'"
            )
        return target

    @property
    def is_cluster(self) -> bool:
        """True if the driver runs on another machine and cannot read the task's files."""
        return self.deploy_mode == "cluster"

    def build_submission(self, settings: SparkSettings, folder: Path, job: str, connections: Connections) -> Submission:
        """Write the job's files, and return the submission.

        :param folder: private folder for files that the task and the Spark driver exchange.
        :param job: the job file's text.
        """
        job_file = folder / "job.json"
        job_file.touch(mode=0o600)
        job_file.write_text(job, encoding="utf-8")
        if not self.is_cluster:
            write_connections(folder / "connections.json", connections)
        launch_plan = launch.prepare(
            master=self.master,
            deploy_mode=self.deploy_mode,
            user_conf=settings.conf,
            run_folder=folder,
            user_env=settings.env_vars,
        )
        env_vars = {**launch_plan.env_vars, **settings.env_vars}
        _require_binary(self.binary, {**os.environ, **env_vars}.get("PATH"))
        return Submission(
            application=launch_plan.application,
            # Spark puts the files into the working directory of a driver elsewhere.
            application_args=[job_file.name if self.is_cluster else str(job_file)],
            conf=dict(launch_plan.conf),
            env_vars=env_vars or None,
            py_files=_join_lists(settings.py_files, launch_plan.py_files),
            files=_join_lists(settings.files, str(job_file)) if self.is_cluster else settings.files,
        )


def run_submission(
    submit: Callable[[], None], folder: Path, sealed_connections: SealedConnections | None, log: Logger
) -> Exception | None:
    """Submit a job and wait for its end. Returns the error of spark-submit, whose job may have left a report."""
    try:
        submit()
    except Exception as error:  # noqa: BLE001  # the report knows the cause better
        return error
    finally:
        launch.finish(folder)
        delete_sealed(sealed_connections, log)
    return None


def delete_sealed(sealed_connections: SealedConnections | None, log: Logger) -> None:
    """Delete the sealed half of connections, if there are any. An error is only logged."""
    if sealed_connections is not None:
        try:
            sealed.delete_sealed(sealed_connections)
        except ConnectError as error:
            # Must not hide the outcome of the days. One sealed half alone is noise, and a later task sweeps it.
            log.warning("The sealed connections could not be deleted: %s", error)


def _require_binary(binary: str, path: str | None) -> None:
    if shutil.which(binary, path=path) is None:
        raise ConfigError(
            f"{binary!r} is not on this worker's PATH. Install Spark, or run "
            "'pip install airflow-provider-connect[local]' in Airflow's environment"
        )


def _join_lists(*file_lists: str | None) -> str | None:
    return ",".join(filter(None, file_lists)) or None
