"""Opens the source and the sink of a job, assembles the steps, and runs all days."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities import source as capabilities
from airflow_provider_connect.capabilities.poller import LimitsPolls, ReadBySpark
from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.registry import days_per_plan, requests_for
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.spark import application, poll, put, watchdog
from airflow_provider_connect.spark.attempts import EarlierAttempts
from airflow_provider_connect.spark.capabilities.allowance import RequestBudget
from airflow_provider_connect.spark.capabilities.counts import DayCounter
from airflow_provider_connect.spark.capabilities.deadlines import DaySplitter
from airflow_provider_connect.spark.capabilities.definitions import DefinitionGuard
from airflow_provider_connect.spark.capabilities.grouping import DayGrouping
from airflow_provider_connect.spark.capabilities.positions import PositionKeeper
from airflow_provider_connect.spark.capabilities.resuming import PlanResumer
from airflow_provider_connect.spark.context import Executors, Intake, JobContext, Outlet, fingerprint_of, open_stage
from airflow_provider_connect.spark.days.check import DayChecker
from airflow_provider_connect.spark.days.parallel import run_all_days
from airflow_provider_connect.spark.days.plan import DayPlanner
from airflow_provider_connect.spark.days.poll import PlanPoller
from airflow_provider_connect.spark.days.publish import DayPublisher
from airflow_provider_connect.spark.days.runner import DayRunner
from airflow_provider_connect.spark.days.stager import PolledStager
from airflow_provider_connect.spark.days.sweep import sweep
from airflow_provider_connect.spark.first_load import ask_again
from airflow_provider_connect.spark.progress import ProgressLog, RowEstimate, log_line
from airflow_provider_connect.spark.transform import entry as transforming
from airflow_provider_connect.stage.temporary import polled_root
from airflow_provider_connect.values.ddl import types_by_column
from airflow_provider_connect.window import group_days


def run_job(
    job: JobConfig, connections: Connections, started: float, budget: RequestBudget, wait_for_context: Callable[[], Any]
) -> JobReport:
    """Move the days of a job from source to sink, and return the report.

    :param started: start of the driver, in seconds of the monotonic clock.
    """
    source: Source = registry.source_class(job.source_name).from_options(job.source)
    sink: Sink = registry.sink_class(job.sink_name).from_options(job.sink)
    key = StreamKey(connector=job.source_name, stream=source.stream_key)
    connection = connections[source.conn_id]
    shaping = Shaping.of(Chain.of(job.shape), connections)
    polling = PollContext(spark=functools.cache(lambda: _sql_session(wait_for_context())))
    with (
        closing_quietly(source.open(connection, polling), log_line) as poller,
        closing_quietly(sink.open(key, connections), log_line) as publisher,
    ):
        source_schema = ask_again(poller.schema, is_first_load=lambda: not len(publisher.ledger.days()))
        declared = shaping.chain
        if job.transform is None:
            shaping = shaping.followed_by(sink.shapes_for(declared.result_schema(source_schema)))
        intake = Intake(source, connection, poller, source_schema, shaping, declared)
        shaping.bind(intake.source_schema)  # raises for a missing key before any request
        transformation, sql_seconds = transforming.start_transformation(job, intake.staged_schema, wait_for_context)
        result = intake.staged_schema if transformation is None else transformation.schema
        if problems := publisher.preflight(result, job.all_days, source.kind):
            raise ConfigError("; ".join(problems) + transforming.result_hint(result, intake.staged_schema))
        sink_stage = sink.stage_root(connections)
        outlet = Outlet(sink, publisher, key, result, open_stage(sink_stage, job), keeps_stage=sink_stage is not None)
        guard = DefinitionGuard.of(job, intake, outlet)
        spark_context = wait_for_context()
        seconds = {"start": time.monotonic() - started} | ({"sql_session": sql_seconds} if transformation else {})
        counter = DayCounter(source, poller, job.rules, budget.count_budget)
        # With a transform the ledger counts result rows, which do not estimate a poll.
        row_estimate = None if transformation else RowEstimate(publisher.ledger, source.kind, counter.planned_count)
        polled_stage = polled_root(outlet.root) if transformation else outlet.root
        with ProgressLog(polled_stage, job.progress_seconds, len(job.all_days), row_estimate) as progress:
            context = JobContext(job, intake, outlet, progress, is_transformed=transformation is not None)
            width, executors = _make_executors(context, connections, spark_context, max_polls(poller, budget.max_days))
            stager = make_stager(context, executors, budget, counter)
            runner = DayRunner(
                context,
                transforming.stager_for(transformation, stager, context),
                DayChecker(context, counter),
                DayPublisher(context, executors.put_shares),
                watchdog.is_task_alive,
                guard,
            )
            splitter = stager.planner.splitter
            reports = run_all_days(runner, _make_grouping(context, splitter, budget), width)
        seconds["work"] = time.monotonic() - started - seconds["start"]
        swept_files = sweep(outlet)
    fields = {"warnings": tuple(guard.warnings), "seconds": seconds, "swept_files": swept_files}
    return _make_report(context, reports, splitter, **fields)


def make_stager(
    context: JobContext, executors: Executors, budget: RequestBudget, counter: DayCounter | None
) -> PolledStager:
    """Assemble the steps that poll days into the stage."""
    earlier_attempts = EarlierAttempts(
        context.polled_root, context.job.attempt, functools.partial(fingerprint_of, context)
    )
    resumer = PlanResumer(context.intake.poller, earlier_attempts)
    planner = DayPlanner(DaySplitter(context.intake, earlier_attempts), resumer, counter)
    positions = PositionKeeper(context.outlet.publisher, context.job.intent.run)
    plan_poller = PlanPoller(context, executors, budget, resumer)
    return PolledStager(context.intake, earlier_attempts, planner, plan_poller, positions)


def max_polls(poller: Poller, quota_limit: int) -> int:
    """Return how many partitions of the job may be polled concurrently.

    :param quota_limit: how many the quota allows.
    """
    source_limit = poller.max_polls if isinstance(poller, LimitsPolls) else None
    return quota_limit if source_limit is None else min(quota_limit, source_limit)


def _make_executors(
    context: JobContext, connections: Connections, spark_context: Any, poll_limit: int
) -> tuple[int, Executors]:
    job, intake, outlet = context.job, context.intake, context.outlet
    parallel_days = 1 if intake.source.kind == "increment" else intake.source.parallel_days
    width = min(parallel_days, spark_context.defaultParallelism, poll_limit)
    plans = max(1, min(width, len(group_days(job.all_days, days_per_plan(intake.poller)))))

    def put_shares(token: Any, shares: list[Any]) -> list[Any]:
        run_put = functools.partial(
            put.run_put_tasks,
            sink_name=job.sink_name,
            sink=job.sink,
            key=outlet.key,
            token=token,
            stage=outlet.root.url,
            connections=connections,
        )
        return put.collect_receipts(application.run_tasks(spark_context, shares, run_put))

    return width, Executors(
        poll_partitions=_poll_function(spark_context, intake),
        put_shares=put_shares if isinstance(outlet.publisher, StagesByExecutors) else None,
        concurrent_parts=max(1, poll_limit // plans),
        concurrent_plans=plans,
    )


def _poll_function(spark_context: Any, intake: Intake) -> Callable[[list[str]], list[str]]:
    if isinstance(intake.poller, ReadBySpark):
        from airflow_provider_connect.spark.capabilities.frame_polling import make_frame_poller  # noqa: PLC0415  # slow, and few sources need it

        return make_frame_poller(intake.poller, intake.source_schema, intake.connection, intake.shaping)
    run_poll = functools.partial(
        poll.run_poll_tasks, schema=intake.source_schema, connection=intake.connection, shaping=intake.shaping
    )
    return lambda tasks: application.run_tasks(spark_context, tasks, run_poll)


def _sql_session(spark_context: Any) -> Any:
    from airflow_provider_connect.spark.capabilities.frame_polling import sql_session  # noqa: PLC0415  # slow, and few sources need it

    return sql_session(spark_context)


def _make_grouping(context: JobContext, splitter: DaySplitter, budget: RequestBudget) -> DayGrouping:
    job, intake = context.job, context.intake
    dates_alone = splitter.dates_to_poll_alone if days_per_plan(intake.poller) > 1 else ()
    if job.allowance is not None and job.count_allowance is None:
        counting = intake.source.capability(capabilities.Counts) or capabilities.Counts()
        budget.count_budget.is_reserved = counting.count_quota(intake.connection) is None
    requests = requests_for(intake.source, job.all_days, dates_alone)
    budget.expect(requests, max_requests_each=intake.source.retry_budget_requests)
    return DayGrouping(intake.poller, job.all_days, context.outlet.publisher.ledger, dates_alone)


def _make_report(context: JobContext, days: list[DayReport], splitter: DaySplitter, **fields: Any) -> JobReport:
    intake, chain = context.intake, context.intake.shaping.chain
    fields["columns"] = types_by_column(intake.source_schema)
    fields["result_columns"] = types_by_column(context.outlet.published_schema) if context.is_transformed else None
    if chain and (staged_types := types_by_column(intake.staged_schema)):
        fields |= {"staged_columns": staged_types, "made_of": chain.column_origins(intake.source_schema)}
    report = JobReport.from_days(context.job.attempt, days, **fields)
    waits_for_quota = report.failure is not None and report.failure.type == QuotaError.__name__
    return (
        report.model_copy(update={"to_count": splitter.dates_to_split, "alone": splitter.dates_to_poll_alone})
        if waits_for_quota
        else report
    )
