"""One run of the operator's task: plan, start Spark, believe nothing the ledger does not say, move the offset.

Apart from the operator, so that the parsing of a DAG file need not import it.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_provider_connect import launch, offsets, sealed
from airflow_provider_connect.connection import write_connections
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.operators import credentials, ending, outcome
from airflow_provider_connect.operators.intent import intent_of, new_attempt
from airflow_provider_connect.operators.window import require_begun, resolve_days, start_day
from airflow_provider_connect.sink import Connections, Ledger, StreamKey
from airflow_provider_connect.stage.manifest import CONTROL
from airflow_provider_connect.stage.storage import normalised
from airflow_provider_connect.stage.temporary import local_stage

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_connect.operators.connect import ConnectOperator


@dataclass(frozen=True)
class Run:
    """What goes to Spark, and what stays here.

    :param folder: the private folder through which both talk.
    """

    operator: ConnectOperator
    key: StreamKey
    config: JobConfig
    connections: Connections
    folder: Path
    master: str
    deploy_mode: str
    binary: str
    start: dt.date | None

    @property
    def is_cluster(self) -> bool:
        """Whether the driver runs elsewhere, and cannot see the folder."""
        return self.deploy_mode == "cluster"

    @classmethod
    def plan(cls, operator: ConnectOperator, context: Context, folder: Path) -> Run:
        """Decide all that can be decided before anything is started.

        :raises ConfigError: with what a person must mend.
        """
        source, sink = operator.source, operator.sink
        key = StreamKey(connector=source.name, stream=source.stream_key)
        days = resolve_days(operator.days, context["dag_run"], source.timezone)
        require_begun(days, dt.datetime.now(dt.UTC))
        operator.days = str(days[0]) if len(days) == 1 else f"{days[0]}..{days[-1]}"
        connections = credentials.resolve_all(source, sink, operator._conn_id)
        # The hook itself knows how a connection becomes a master. Any keytab given here keeps it from writing the
        # connection's own to disk for a mere look.
        hook = SparkSubmitHook(conn_id=operator._conn_id, deploy_mode=operator._deploy_mode, keytab="not-used")
        master, deploy_mode = hook._connection["master"], hook._connection["deploy_mode"] or "client"
        intent = intent_of(context["dag_run"], context["ti"])
        attempt = new_attempt(intent)
        _check_mode(operator._conn_id, master, deploy_mode)
        staging = _staging(operator, sink.stage_root(connections), master, f"{key} {sink.target}")
        # The task itself reads the sink's ledger there; a stage alone may lie where only the cluster sees it.
        _require_folder(sink.stage_root(connections) or (staging if master.startswith("local") else None))
        report, halves = str(folder / "report.json"), None
        if deploy_mode == "cluster":
            shared = _shared_folder(sink.stage_root(connections) or staging)
            report = f"{shared}/reports/{attempt}.json"
            halves = sealed.seal(shared, attempt, connections)
        operator.log.info("Days %s of %s into %s, attempt %s", operator.days, key, sink.target, attempt)
        config = JobConfig(
            source_name=source.name,
            source=source.serialize(),
            sink_name=sink.name,
            sink=sink.serialize(),
            days=tuple(days),
            intent=intent,
            attempt=attempt,
            report=report,
            staging=staging,
            sealed_connections=halves,
            labels=_labels(context),
            on_empty=operator.on_empty,
            progress_seconds=operator.progress_seconds,
        )
        start = start_day(context["dag"].start_date, source.timezone)
        binary = hook._connection["spark_binary"]
        return cls(operator, key, config, connections, folder, master, deploy_mode, binary, start)

    def move(self, submit: Callable[[], None]) -> JobReport:
        """Run the job, believe it only with the ledger, and let the offset follow, whatever happened.

        :param submit: starts what :meth:`_prepare` set on the operator, and waits for its end.
        :raises ConnectError: what the job's report says, or that it cannot be believed.
        """
        log, source, sink = self.operator.log, self.operator.source, self.operator.sink
        ledger = sink.ledger(self.key, self.connections)
        try:
            report = self._report_of(submit)
            outcome.verify(report, self.config, ledger)
        except Exception:
            self._follow_after_failure(ledger)
            raise
        offset = offsets.follow(source, sink, ledger, self.start, origin=self.operator.origin)
        log.info("Offset %s: %d days done, %s", self.key, len(offset.done), _position(offset))
        return report

    def _report_of(self, submit: Callable[[], None]) -> JobReport:
        failure: Exception | None = None
        try:
            self._prepare()
            submit()
        except Exception as error:  # noqa: BLE001  # the report knows better what went wrong
            failure = error
        finally:
            launch.finish(self.folder)
            self._unseal()
        report = outcome.read_report(self.config)
        if report is None:
            if failure is None:
                raise RetriableError("spark-submit ended without an error, but its job left no report")
            # An operator that is being killed removes the folder, and ends Spark itself.
            raise (ending.reason(failure) if self.folder.exists() else None) or failure
        self.operator.log.info("Outcome by day:\n%s", outcome.table(report))
        if report.failure is not None:
            raise ending.with_reason(report.failure.error(), failure)
        if failure is not None:
            self.operator.log.warning("Spark did not end well, but its job had: the ledger decides")
        return report

    def _prepare(self) -> None:
        operator = self.operator
        job = self.folder / "job.json"
        job.touch(mode=0o600)
        job.write_text(self.config.model_dump_json(), encoding="utf-8")
        if not self.is_cluster:
            write_connections(self.folder / "connections.json", self.connections)
        how = launch.prepare(
            master=self.master, deploy_mode=self.deploy_mode, user_conf=operator.conf or {}, run_folder=self.folder
        )
        operator.application = how.application
        operator.conf = dict(how.conf)
        operator.env_vars = {**how.env_vars, **(operator.env_vars or {})} or None
        _check_binary(self.binary, {**os.environ, **(operator.env_vars or {})}.get("PATH"))
        operator.py_files = _joined(operator.py_files, how.py_files)
        operator.application_args = [str(job)]
        if self.is_cluster:
            # Spark puts it into the driver's working directory.
            operator.files = _joined(operator.files, str(job))
            operator.application_args = [job.name]

    def _unseal(self) -> None:
        """Delete the sealed connections of a driver that never came to read them."""
        if self.config.sealed_connections is not None:
            try:
                sealed.drop(self.config.sealed_connections)
            except ConnectError as error:
                # It must not hide what became of the days; alone it tells nothing, and a later task sweeps it.
                self.operator.log.warning("The sealed connections could not be deleted: %s", error)

    def _follow_after_failure(self, ledger: Ledger) -> None:
        """Let the offset follow what a failed task did publish; that it cannot must not hide why the task failed."""
        try:
            operator = self.operator
            offsets.follow(operator.source, operator.sink, ledger, self.start, origin=operator.origin)
        except Exception as error:  # noqa: BLE001
            self.operator.log.warning("The offset of %s could not follow the ledger: %s", self.key, error)


def _check_mode(conn_id: str, master: str, deploy_mode: str) -> None:
    if deploy_mode == "cluster" and master.startswith("spark://"):
        raise ConfigError(
            f"Spark connection {conn_id!r}: a standalone cluster cannot run Python in deploy mode 'cluster'; "
            "use 'client'"
        )


def _check_binary(binary: str, path: str | None) -> None:
    if shutil.which(binary, path=path) is None:
        raise ConfigError(
            f"{binary!r} is not on this worker's PATH: install Spark, or "
            "'pip install airflow-provider-connect[local]' into Airflow's environment"
        )


def _staging(operator: ConnectOperator, own: str | None, master: str, what: str) -> str | None:
    """Return where polled days wait for their publish; None if the sink has a place of its own.

    :raises ConfigError: nobody says where, and the workers may be elsewhere.
    """
    if own is not None:
        return None
    if operator.staging:
        return operator.staging
    if not master.startswith("local"):
        raise ConfigError(
            f"sink {operator.sink.name!r} needs a place where polled days wait until they are published: give the "
            f"operator staging=, a path or URL that every worker of {master!r} reaches"
        )
    return local_stage(what)


def _require_folder(place: str | None) -> None:
    """Refuse a local path whose parent is missing: a wrong name, or a volume that is not mounted.

    :raises ConfigError: before Spark is started, which would only find the same.
    """
    path = normalised(place) if place else ""
    if not path.startswith("/"):
        return
    parent = Path(path).parent
    try:
        there = parent.is_dir()
    except PermissionError:
        raise ConfigError(f"folder {str(parent)!r} may not be looked into by the user this task runs as") from None
    if not there:
        raise ConfigError(f"folder {str(parent)!r} does not exist: make it, or mend the path {path!r}")


def _shared_folder(root: str | None) -> str:
    if root is None:
        raise ConfigError("deploy mode 'cluster' needs staging=, a URL that the cluster and this worker both reach")
    return f"{root.rstrip('/')}/{CONTROL}"


def _position(offset: offsets.Offset) -> str:
    if offset.position is not None:
        return f"every day up to {offset.position}"
    return f"but not the first one, {offset.origin}"


def _joined(*lists: str | None) -> str | None:
    return ",".join(filter(None, lists)) or None


def _labels(context: Context) -> dict[str, str]:
    task = context["ti"]
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": str(task.map_index),
        "try_number": str(task.try_number),
    }
