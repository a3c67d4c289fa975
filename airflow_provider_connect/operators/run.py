"""One run of the operator's task: plan, start Spark, check the report against the ledger, update the offset.

DAG files do not import this module.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_connect import offsets
from airflow_provider_connect.capabilities.publisher import TestsConnection
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.hooks import variables
from airflow_provider_connect.job import Allowance, JobConfig, JobReport, SealedConnections
from airflow_provider_connect.operators import job_outcome
from airflow_provider_connect.operators.declared_options import DeclaredBy, DeclaredOptions
from airflow_provider_connect.operators.intent import intent_of, new_attempt
from airflow_provider_connect.operators.metrics import Metrics
from airflow_provider_connect.operators.run_days import first_requested_day, format_days
from airflow_provider_connect.operators.submission import (
    SparkSettings,
    SparkTarget,
    Submission,
    delete_sealed,
    run_submission,
)
from airflow_provider_connect.shapes.chain import Chain
from airflow_provider_connect.shapes.shape import Shape
from airflow_provider_connect.sink import Connections, Ledger, OnEmpty, Publisher, Sink, StreamKey
from airflow_provider_connect.source import Source
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER
from airflow_provider_connect.stage.rejects import RejectsKeep
from airflow_provider_connect.stage.storage import normalise_path
from airflow_provider_connect.stage.temporary import local_stage, stage_name
from airflow_provider_connect.stage.transform import parse_transform
from airflow_provider_connect.submit import sealed
from airflow_provider_connect.submit.master import require_master
from airflow_provider_connect.window import Day, Schedule

_SINK_ANSWER_SECONDS = 20.0

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger


@dataclass(frozen=True)
class RunSpec:
    """Inputs of a run: the operator's rendered arguments, and Spark's.

    :param lookback: earlier days to load again.
    :param has_lookback: the operator has ``lookback_days``.
    :param declared_options: fields of :class:`.DeclaredOptions`.
    :param end_date: the task's or its DAG's, whichever is earlier.
    :param allowance: the job's share of the source's quota.
    :param count_allowance: the job's share of the quota for the vendor's counts.
    """

    source: Source
    sink: Sink
    chain: Chain
    declared_options: tuple[Source, Sequence[Shape | dict[str, Any]], str | None, DeclaredBy]
    days: tuple[Day, ...]
    staging: str | None
    on_empty: OnEmpty
    rejects_keep: RejectsKeep
    rules: Rules
    transform: str | None
    progress_seconds: float
    origin: dt.date | None
    conn_id: str
    connections: Connections
    deploy_mode: str | None
    conf: dict[str, Any]
    env_vars: dict[str, Any]
    py_files: str | None
    files: str | None
    log: Logger
    metrics: Metrics
    allowance: Allowance | None = None
    count_allowance: Allowance | None = None
    lookback: tuple[Day, ...] = ()
    has_lookback: bool = False
    end_date: dt.datetime | None = None

    @property
    def spark_settings(self) -> SparkSettings:
        """The task's settings of spark-submit."""
        return SparkSettings(self.conf, self.env_vars, self.py_files, self.files)

    @property
    def all_days(self) -> tuple[Day, ...]:
        """All days to poll, lookback days last."""
        return (*self.days, *self.lookback)


@dataclass(frozen=True)
class Run:
    """A planned run.

    :param folder: private folder for files that the task and the Spark driver exchange.
    """

    spec: RunSpec
    key: StreamKey
    config: JobConfig
    folder: Path
    target: SparkTarget
    first_day: dt.date | None
    schedule: Schedule

    @classmethod
    def plan(cls, spec: RunSpec, context: Context, folder: Path) -> Run:
        """Build the run: everything that can be decided before Spark starts."""
        run = cls.plan_job(spec, context, folder, SparkTarget.resolve(spec.conn_id, spec.deploy_mode))
        require_master(spec.conn_id, run.target.master)
        report, sealed_connections = run.seal(run.config.attempt)
        update = {"report": report, "sealed_connections": sealed_connections}
        return replace(run, config=run.config.model_copy(update=update))

    @classmethod
    def plan_job(cls, spec: RunSpec, context: Context, folder: Path, target: SparkTarget) -> Run:
        """Build the run of one stream without a place for its report and its connections."""
        source, sink = spec.source, spec.sink
        key = StreamKey(connector=source.name, stream=source.stream_key)
        connections = spec.connections
        intent = intent_of(context["dag_run"], context["ti"])
        attempt, master = new_attempt(intent), target.master
        staging = _staging_location(spec, sink.stage_root(connections), master, stage_name(key, sink.target))
        # The task reads the sink's ledger there. A stage alone may lie where only the cluster has access.
        _require_folder(sink.stage_root(connections) or (staging if master.startswith("local") else None))
        spec.log.info("Days %s of %s into %s, attempt %s", format_days(spec.days), key, sink.target, attempt)
        config = JobConfig(
            source_name=source.name,
            source=source.serialize(),
            sink_name=sink.name,
            sink=sink.serialize(),
            days=spec.days,
            allowance=spec.allowance,
            count_allowance=spec.count_allowance,
            lookback=spec.lookback,
            has_lookback=spec.has_lookback,
            concurrent_polls=source.concurrent_polls(len(spec.days) + len(spec.lookback)),
            intent=intent,
            attempt=attempt,
            report="",
            staging=staging,
            labels=_labels(context),
            on_empty=spec.on_empty,
            shape=tuple(spec.chain.serialize()),
            rejects_keep=spec.rejects_keep,
            rules=spec.rules,
            transform=None if spec.transform is None else parse_transform(spec.transform),
            progress_seconds=spec.progress_seconds,
            definition=DeclaredOptions(*spec.declared_options).build_definition(source, sink, spec.chain, connections),
        )
        start = first_requested_day(context["dag"].start_date, source)
        is_set = context["dag"].timetable.can_be_scheduled
        schedule = Schedule.from_task(is_set=is_set, end=spec.end_date, zone_name=source.timezone)
        return cls(spec, key, config, folder, target, start, schedule)

    def seal(self, attempt: str) -> tuple[str, SealedConnections | None]:
        """Return the place of the job's report. For a driver on another machine, also seal the connections."""
        if not self.target.is_cluster:
            return str(self.folder / "report.json"), None
        shared_folder = _shared_folder(self.spec.sink.stage_root(self.spec.connections) or self.config.staging)
        report = f"{shared_folder}/reports/{attempt}.json"
        return report, sealed.seal(shared_folder, attempt, self.spec.connections)

    def open_publisher(self) -> AbstractContextManager[Publisher]:
        """Open the sink, and close it at the end. Imports it, but uses no network."""
        new_publisher = self.spec.sink.open(self.key, self.spec.connections)
        return closing_quietly(new_publisher, lambda text: self.spec.log.warning("%s", text))

    def move(
        self, submit: Callable[[Submission], None], on_report: Callable[[JobReport], None] = lambda report: None
    ) -> JobReport:
        """Run the job, check its report against the ledger, and return it. The offset is updated even after a failure.

        :param submit: starts a submission and waits for its end.
        :param on_report: receives the report, also of a failed job.
        :raises ConnectError: the job failed, or its report contradicts the ledger.
        """
        with self.open_publisher() as publisher:
            self._ask_sink(publisher)
            try:
                report = self._run_job(submit, on_report)
                job_outcome.verify_report(report, self.config, publisher.ledger)
            except Exception:
                self.update_offset_after_failure(publisher.ledger)
                raise
            offset = self.update_offset(publisher.ledger)
        self.spec.log.info("Offset %s: settled days: %d, %s", self.key, len(offset.done), _position_text(offset))
        return report

    def _ask_sink(self, publisher: Publisher) -> None:
        """Ask the sink of a stream that has published no day, so that a wrong connection fails before Spark starts.

        The sink of a stream that has published days is asked by the job, which waits longer for a server's restart.
        """
        offset = offsets.parse_offset(variables.read(offsets.variable_key(self.spec.source, self.spec.sink)))
        if offset is not None and offset.days:
            return
        try:
            self.ask_sink_of_first_load(publisher)
        except BaseException:
            delete_sealed(self.config.sealed_connections, self.spec.log)
            raise

    def ask_sink_of_first_load(self, publisher: Publisher) -> None:
        """Ask the sink of a stream that has published no day.

        :raises ConnectError: the sink does not answer.
        """
        self.spec.log.info("First load of %s: asking %s before Spark starts", self.key, self.spec.sink.target)
        if isinstance(publisher, TestsConnection):
            publisher.test_connection(_SINK_ANSWER_SECONDS)
        else:
            publisher.ledger.days()

    def _run_job(self, submit: Callable[[Submission], None], on_report: Callable[[JobReport], None]) -> JobReport:
        config = self.config
        failure = run_submission(
            lambda: submit(self.build_submission(config.model_dump_json())),
            self.folder,
            config.sealed_connections,
            self.spec.log,
        )
        report = job_outcome.read_report(config)
        if report is None:
            raise job_outcome.explain_missing_report(failure, self.folder)
        on_report(report)
        self.log_report(report)
        if report.days:
            self.spec.log.info("Outcome by day:\n%s", job_outcome.format_days(report))
        if report.failure is not None:
            raise job_outcome.add_exit_cause(report.failure.error(), failure)
        if failure is not None:
            self.spec.log.warning("spark-submit failed, but its job succeeded. The ledger decides")
        return report

    def build_submission(self, job: str) -> Submission:
        """Write the job's files, and return the submission."""
        return self.target.build_submission(self.spec.spark_settings, self.folder, job, self.spec.connections)

    def log_report(self, report: JobReport) -> None:
        """Send the report's figures as metrics, and log its warnings."""
        self.spec.metrics.send_job(report)
        for warning in (*report.warnings, *(warning for day in report.days for warning in day.warnings)):
            self.spec.log.warning("%s", warning)

    def update_offset(self, ledger: Ledger) -> offsets.Offset:
        """Recompute the offset from the ledger.

        :raises ConnectError: as :func:`.offsets.recompute`.
        """
        spec = self.spec
        offset = offsets.recompute(spec.source, spec.sink, ledger, self.first_day, origin=spec.origin)
        spec.metrics.send_lag(offset, spec.source.timezone, self.schedule)
        return offset

    def update_offset_after_failure(self, ledger: Ledger) -> None:
        """Recompute the offset. An error is only logged."""
        try:
            self.update_offset(ledger)
        except Exception as error:  # noqa: BLE001
            self.spec.log.warning("The offset of %s could not be recomputed from the ledger: %s", self.key, error)


def _staging_location(spec: RunSpec, sink_stage: str | None, master: str, stage: str) -> str | None:
    """Return where polled days wait for their publish. None if the sink stages them itself."""
    if sink_stage is not None:
        return None
    if spec.staging:
        return spec.staging
    if not master.startswith("local"):
        raise ConfigError(
            f"sink {spec.sink.name!r} needs staging= for polled days, a path or URL that every worker of "
            f"{master!r} reaches"
        )
    return local_stage(stage)


def _require_folder(location: str | None) -> None:
    path = normalise_path(location) if location else ""
    if not path.startswith("/"):
        return
    parent = Path(path).parent
    try:
        is_folder = parent.is_dir()
    except PermissionError:
        raise ConfigError(f"folder {str(parent)!r} cannot be read by this task's user") from None
    if not is_folder:
        raise ConfigError(f"folder {str(parent)!r} does not exist. Create it, or correct the path {path!r}")


def _shared_folder(root: str | None) -> str:
    if root is None:
        raise ConfigError("deploy mode 'cluster' needs staging=, a URL that the cluster and this worker both reach")
    return f"{root.rstrip('/')}/{CONTROL_FOLDER}"


def _position_text(offset: offsets.Offset) -> str:
    if offset.position is not None:
        return f"without a gap up to {offset.position}"
    return f"the first wanted day, {offset.origin}, is not settled yet"


def _labels(context: Context) -> dict[str, str]:
    task = context["ti"]
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": str(task.map_index),
        "try_number": str(task.try_number),
    }
