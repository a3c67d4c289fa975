"""The operator: moves days from any source into any sink, on Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.bases.operator import ExecutorSafeguard

from airflow_provider_connect.capabilities.source import ListsStreams
from airflow_provider_connect.completeness import RECONCILE_PERCENT, SHRINK_PERCENT, Rules
from airflow_provider_connect.config import Options
from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, raise_from_one_frame, refuse_any
from airflow_provider_connect.operators.arguments import (
    RESERVED_ARGUMENTS,
    AssetEvents,
    LookbackDays,
    parse_origin,
    require_known_arguments,
    require_reloadable,
    require_valid_values,
    require_vendor_counts,
)
from airflow_provider_connect.operators.declaration import DeclaredOperator
from airflow_provider_connect.operators.links import PublishedLink
from airflow_provider_connect.operators.outlets import ConnectPartial, add_outlet, asset_of
from airflow_provider_connect.operators.reporting import defer_until, emit_event, push_failed_report
from airflow_provider_connect.operators.retry import CONNECT_RETRY_POLICY, to_airflow_error
from airflow_provider_connect.operators.run_days import DayInputs, format_days, ready_at, resolve_days
from airflow_provider_connect.operators.run_folder import close_pipe, remove_folder, run_folder
from airflow_provider_connect.operators.streams.declaration import add_stream_outlet, example_pair
from airflow_provider_connect.registry import quota_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Asset, AssetAlias, Context, RetryPolicy

    from airflow_provider_connect.completeness import OnShrink, Reconcile, RowBounds
    from airflow_provider_connect.job import JobReport
    from airflow_provider_connect.operators.lineage import DatasetPair
    from airflow_provider_connect.operators.quota import QuotaJob, TaskProgress
    from airflow_provider_connect.operators.run import RunSpec
    from airflow_provider_connect.operators.streams.report import TaskReport
    from airflow_provider_connect.operators.submission import Submission
    from airflow_provider_connect.shapes.shape import Shape
    from airflow_provider_connect.sink import OnEmpty, Sink
    from airflow_provider_connect.source import Source
    from airflow_provider_connect.stage.rejects import RejectsKeep


class ConnectOperator(DeclaredOperator):
    """Move the days of a run from a source into a sink. Each day is published exactly once.

    The task starts one Spark application for all days. Then it checks the job's report against the sink's ledger and
    recomputes the stream's :class:`~airflow_provider_connect.offsets.Offset`. A clear or backfill loads the days again.

    :param source: source of the days. Its text options may be templates, also those of ``sink`` and ``shape``.
    :param sink: target of the days.
    :param shape: shapes (:mod:`airflow_provider_connect.shapes`) that change the rows before the sink gets them, in
        this order, such as ``[Drop(columns=["ip"])]``.
    :param rejects_keep: content kept of an unreadable record: ``record`` or ``digest``. The default is ``digest`` if a
        shape drops or masks columns, else ``record``.
    :param days: ``YYYY-MM-DD``, or ``YYYY-MM-DD..YYYY-MM-DD`` with both ends included, in the source's zone
        (templated). The default is the run's partition key, else the day of a manual run's logical date, else the run's
        data interval. A DAG with ``params=days_form()`` lets a person choose the days in the Trigger form.
    :param staging: path or URL where polled days lie until they are published, if the sink has no stage (templated).
        Every worker of a cluster must reach it. With Spark on the task's machine, the default is a private temporary
        folder.
    :param on_empty: effect of an answer without rows if the ledger has rows of the day. ``fail`` (default) fails the
        task and keeps the rows. ``accept`` replaces them with the empty day. ``never`` fails every day without rows. A
        first load may be empty otherwise, with a warning while the stream has no row.
    :param on_shrink: effect of an answer that lacks more than ``shrink_percent`` of the day's rows in the ledger. A
        day's first snapshot is compared with the snapshot before. ``fail`` (default) fails the task and keeps the rows,
        ``warn`` replaces them with a warning, ``accept`` replaces them silently.
    :param shrink_percent: largest accepted loss in percent, 50 by default. Deletions take a few percent of a day.
    :param row_bounds: :class:`~airflow_provider_connect.completeness.RowBounds` that limit how far a day's rows may be
        from the mean of the days before it in the ledger.
    :param reconcile: comparison with the vendor's own count: ``off`` (default), ``warn`` publishes with a warning above
        ``reconcile_percent``, ``fail`` fails the task and keeps the published rows. Each count costs requests.
    :param reconcile_percent: largest accepted difference in percent, 1 by default.
    :param ready_after: time from a day's end in the source's zone until its poll, as ``timedelta(hours=2)``. Until then
        the task is deferred. By default it polls immediately, and fails if the day is not over.
    :param lookback_days: number of days before the run's window to load again, for late rows: 0 by default, none in a
        backfill's runs. Skips days before ``origin``, days missing in the ledger, and days polled since the window's
        end (plus ``ready_after``). ``measured`` computes 1 to 10 days from the late rows of the last weeks, which the
        source must count.
    :param transform: Spark SQL over each staged day before its publish: a query over the view ``polled`` (templated).
        Or ``package.module:function``, a function from DataFrame to DataFrame that Spark's driver can import. Equal
        rows should give equal results.
    :param progress_seconds: seconds between two progress lines in the log.
    :param asset: Airflow asset of the target, by default the sink's. Needed if the target is a template, or if other
        DAGs use an address that only the connection has (a topic's cluster, a table's project).
    :param asset_events: ``task`` (default) emits one event with the report as its extra, and starts DAGs scheduled on
        the asset. ``day`` emits one event for each day as partition key, and starts only DAGs with a partitioned
        timetable.
    :param origin: first day of the stream, a date or ``YYYY-MM-DD``, from which the offset's position counts. By
        default the earliest start date of the DAGs that load the stream.
    :param outlets: more outlets. An outlet with the asset's URI replaces the asset.
    :param conn_id: the Spark connection, which must exist.
    :param name: name of the Spark application (templated).
    :param retries: 3 by default.
    :param retry_policy: by default waits as long as the source asked for, else for the task's ``retry_delay``.
    :param kwargs: other arguments of :class:`SparkSubmitOperator`, except ``application``, its arguments and
        ``durable``. Every try submits a new job.

    XCom and the asset's event carry a short report. A failed task's report is in XCom under the key ``report``.
    """

    template_fields: Sequence[str] = (
        "source",
        "sink",
        "shape",
        "days",
        "staging",
        "ready_after",
        "transform",
        *(name for name in SparkSubmitOperator.template_fields if name not in RESERVED_ARGUMENTS),
    )
    template_fields_renderers = {"source": "json", "sink": "json", "shape": "json", "transform": "sql"}
    ui_color = "#d9ead3"
    operator_extra_links = (PublishedLink(),)
    overwrite_rtif_after_execution = True  # so that the field shows the moved days
    declared_by: ClassVar[Literal["dag", "function"]] = "dag"

    def __init__(
        self,
        *,
        source: Source,
        sink: Sink,
        shape: Sequence[Shape] = (),
        rejects_keep: RejectsKeep | None = None,
        days: str | None = None,
        staging: str | None = None,
        on_empty: OnEmpty = "fail",
        on_shrink: OnShrink = "fail",
        shrink_percent: float = SHRINK_PERCENT,
        row_bounds: RowBounds | None = None,
        reconcile: Reconcile = "off",
        reconcile_percent: float = RECONCILE_PERCENT,
        ready_after: dt.timedelta | None = None,
        lookback_days: LookbackDays = 0,
        transform: str | None = None,
        progress_seconds: float = 5.0,
        asset: Asset | AssetAlias | None = None,
        asset_events: AssetEvents = "task",
        origin: str | dt.date | None = None,
        outlets: Any = None,
        conn_id: str = "spark_default",
        name: str = "airflow-connect",
        retries: int | None = 3,
        retry_policy: RetryPolicy | None = CONNECT_RETRY_POLICY,
        **kwargs: Any,
    ) -> None:
        require_known_arguments(type(self), kwargs)
        checked_arguments: dict[str, Any] = {
            "source": source,
            "sink": sink,
            "shape": shape,
            "rejects_keep": rejects_keep,
        }
        checked_arguments |= {"on_empty": on_empty, "progress_seconds": progress_seconds}
        checked_arguments |= {"on_shrink": on_shrink, "shrink_percent": shrink_percent, "row_bounds": row_bounds}
        checked_arguments |= {"reconcile": reconcile, "reconcile_percent": reconcile_percent}
        checked_arguments |= {"ready_after": ready_after, "lookback_days": lookback_days, "transform": transform}
        require_valid_values(
            type(self).__name__,
            checked_arguments | {"asset": asset, "asset_events": asset_events, "origin": origin, "days": days} | kwargs,
        )
        if not shape and transform is None:  # they may rename or replace columns
            sink = sink.ordered_by(source.order_columns)
        stream = example_pair(source, sink)
        outlets, self.asset = (
            add_outlet(outlets, asset_of(sink, asset))
            if source.capability(ListsStreams) is None
            else add_stream_outlet(outlets, sink, asset, asset_events)
        )
        spark_arguments: dict[str, Any] = {"conn_id": conn_id, "name": name, "durable": False, "outlets": outlets}
        super().__init__(retries=retries, retry_policy=retry_policy, **spark_arguments, **kwargs)
        self.source = source
        self.sink = sink
        self.shape = shape
        self.rejects_keep = rejects_keep
        self.days = days
        self.staging = staging
        self.on_empty = on_empty
        self.rules = Rules(
            on_shrink=on_shrink,
            shrink_percent=shrink_percent,
            row_bounds=row_bounds,
            reconcile=reconcile,
            reconcile_percent=reconcile_percent,
        )
        if not source.templates:
            require_vendor_counts(stream.source, reconcile)
        stream.require_fit()
        self.ready_after = ready_after
        self.lookback_days = lookback_days
        if lookback_days:
            require_reloadable(*stream, lookback_days)
        self.transform = transform
        self.declared_options = source, shape, self.transform, self.declared_by
        self.progress_seconds = progress_seconds
        self.asset_events = asset_events
        self.origin = parse_origin(origin)
        self.published_link = ""
        self._folder: Path | None = None
        self._datasets: DatasetPair | None = None
        self._report: JobReport | None = None
        self._streams: TaskReport | None = None

    @classmethod
    @raise_from_one_frame
    def partial(cls, **kwargs: Any) -> ConnectPartial:
        """Prepare a mapped task. The assets of its task instances become its outlets."""
        require_known_arguments(cls, kwargs)
        require_valid_values(cls.__name__, kwargs)
        partial = super().partial(**kwargs)
        partial._expand_called = True  # not expanded itself: the one returned below is
        return ConnectPartial(operator_class=partial.operator_class, kwargs=partial.kwargs, params=partial.params)

    def render_template(self, content: Any, context: Any, jinja_env: Any = None, seen_oids: Any = None) -> Any:
        """Render a templated field, also the text options of a source, sink or shape."""
        if not isinstance(content, Options):
            return super().render_template(content, context, jinja_env, seen_oids)
        render = super().render_template
        return content.rendered(lambda text: render(text, context, jinja_env))

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]  # Spark's operator returns None
        """Move the days and return the short report.

        :raises AirflowFailException: not retried: a person must act, or the data is bad.
        :raises TryAgainError: a later try may succeed.
        :raises TaskDeferred: the day is not ready, or the source's quota has no room.
        """
        return self.go_on(context)

    def go_on(self, context: Context, event: Any = None, left: dict[str, Any] | None = None) -> dict[str, Any]:
        """Do the work of :meth:`execute`, also after a wait."""
        # Not imported by DAG files.
        from airflow_provider_connect.operators.lineage import DatasetPair  # noqa: PLC0415
        from airflow_provider_connect.operators.quota import QuotaJob, QuotaRunner, TaskProgress  # noqa: PLC0415

        quota_runner = None
        try:
            self._validate_rendered()
            spec = self._build_spec(context)
            if (lister := self.source.capability(ListsStreams)) is not None:
                return self._move_streams(spec, lister, context)
            self._datasets = DatasetPair.from_spec(spec)
            quota = quota_of(self.source, spec.connections[self.source.conn_id])
            if quota is None:
                report = self._run_job(spec, context, QuotaJob())
            else:
                quota_runner = QuotaRunner.for_task(spec, quota, context, TaskProgress(**(left or {})))
                report = quota_runner.move(lambda quota_job: self._run_job(spec, context, quota_job))
        except ConnectError as error:
            progress = quota_runner.progress if quota_runner else TaskProgress(**(left or {}))
            self._push_failed_report(error, context, progress)
            raise to_airflow_error(error) from None
        self.published_link = next((day.link for day in reversed(report.days) if day.link and not day.lookback), "")
        self._report = report
        self._emit_event(context, report)
        return report.summary()

    def _move_streams(self, spec: RunSpec, lister: ListsStreams, context: Context) -> dict[str, Any]:
        from airflow_provider_connect.operators.streams.task import StreamTask  # noqa: PLC0415  # not for DAG files

        with run_folder() as self._folder:
            submit = partial(self._submit, context=context)
            task = StreamTask(spec, lister, context, submit, self.lookback_days, self.ready_after)
            self._streams = task.move(self._folder)
        self.log.info("Outcome by stream and day:\n%s", self._streams.table())
        if (error := self._streams.error()) is not None:
            raise error
        self._emit_event(context, self._streams)
        return self._streams.summary()

    def _run_job(self, spec: RunSpec, context: Context, quota_job: QuotaJob) -> JobReport:
        from airflow_provider_connect.operators.run import Run  # noqa: PLC0415

        def submit(submission: Submission) -> None:
            quota_job.is_submitted = True
            self._submit(submission, context)

        def on_report(report: JobReport) -> None:
            quota_job.report = self._report = report

        with run_folder() as self._folder:
            run = Run.plan(quota_job.narrow(spec), context, self._folder)
            return run.move(submit, on_report)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> OperatorLineage[Any, Any]:
        """Return the lineage. A failed task's lineage covers its published days."""
        from airflow_provider_connect.operators import lineage  # noqa: PLC0415  # not for DAG files

        if self._streams is not None:
            return lineage.build_streams_facets(self._streams.lineage)
        return lineage.build_facets(self._datasets, self._report)

    def on_kill(self) -> None:
        """Stop Spark and delete the task's files."""
        try:
            if self._hook is not None:
                super().on_kill()
        finally:
            if self._folder is not None:
                remove_folder(self._folder)

    def _validate_rendered(self) -> None:
        from airflow_provider_connect.shapes.chain import validate_shapes  # noqa: PLC0415  # not for DAG files

        problems = []
        for name in ("source", "sink"):
            try:
                setattr(self, name, getattr(self, name).checked())
            except ConfigError as error:
                problems.append(str(error))
        try:
            self.shape = validate_shapes(self.shape)
        except ConfigError as error:
            problems.append(str(error))
        refuse_any(problems, "\n")
        stream = example_pair(self.source, self.sink)
        require_vendor_counts(stream.source, self.rules.reconcile)
        stream.require_fit()

    def _build_spec(self, context: Context) -> RunSpec:
        from airflow_provider_connect.hooks import credentials  # noqa: PLC0415
        from airflow_provider_connect.operators.lookback import find_lookback_days  # noqa: PLC0415
        from airflow_provider_connect.operators.metrics import Metrics  # noqa: PLC0415
        from airflow_provider_connect.operators.run import RunSpec  # noqa: PLC0415
        from airflow_provider_connect.shapes.chain import Chain  # noqa: PLC0415

        current_time, chain = dt.datetime.now(dt.UTC), Chain.of(self.shape)
        day_inputs = DayInputs.from_context(self.days, self.origin, self.source, context)
        days, reason, end = resolve_days(day_inputs, context["dag_run"], self.source.timezone, current_time)
        self.days = format_days(days)
        self.log.info("Days %s in %s, by the %s", self.days, self.source.timezone, reason)
        if (ready_time := ready_at(days, self.ready_after, current_time, end)) is not None:
            self.log.info("Days %s are not polled before %s (ready_after)", self.days, ready_time.isoformat())
            defer_until(ready_time)
        spec = RunSpec(
            source=self.source,
            sink=self.sink,
            chain=chain,
            declared_options=self.declared_options,
            days=tuple(days),
            staging=self.staging,
            on_empty=self.on_empty,
            rejects_keep=self.rejects_keep or ("digest" if chain.hides_values else "record"),
            rules=self.rules,
            transform=self.transform,
            progress_seconds=self.progress_seconds,
            origin=self.origin,
            conn_id=self._conn_id,
            connections=credentials.resolve_all(self.source, self.sink, self._conn_id, chain.conn_ids),
            deploy_mode=self._deploy_mode,
            conf=self.conf or {},
            env_vars=self.env_vars or {},
            py_files=self.py_files,
            files=self.files,
            log=self.log,
            metrics=Metrics.for_task(self.source, self.sink, context["ti"]),
            end_date=self.end_date,
            has_lookback=bool(self.lookback_days),
        )
        if self.source.capability(ListsStreams) is not None:
            return spec
        return replace(spec, lookback=find_lookback_days(spec, self.lookback_days, self.ready_after, context))

    def _submit(self, submission: Submission, context: Context) -> None:
        for name, value in vars(submission).items():
            setattr(self, name, value)
        self._hook = None  # otherwise Spark's operator would start the first submission again
        # After a wait Airflow calls go_on() instead of execute(), and would see a nested operator here.
        token = ExecutorSafeguard.tracker.set(self)
        try:
            super().execute(context)
        finally:
            ExecutorSafeguard.tracker.reset(token)
            close_pipe(self._hook)

    def _push_failed_report(self, error: ConnectError, context: Context, progress: TaskProgress) -> None:
        from airflow_provider_connect.job import JobReport  # noqa: PLC0415

        self._report = progress.complete_report(self._report or JobReport(attempt=""))
        report = self._streams or self._report
        if self.do_xcom_push:
            push_failed_report(context, lambda: report.summary_of(Failure.from_error(error)), self.log)

    def _emit_event(self, context: Context, report: JobReport | TaskReport) -> None:
        emit_event(context["outlet_events"][self.asset], self.asset_events, report)
