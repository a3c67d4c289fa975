"""The composition root: opens the two ends of a job, puts the steps of its days together, and moves the days."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities import source as capabilities
from airflow_provider_connect.capabilities.poller import ReadBySpark
from airflow_provider_connect.capabilities.publisher import StagesByExecutors
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.errors import ConfigError, QuotaError
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.registry import days_per_plan, requests_for
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.source import PollContext, Source
from airflow_provider_connect.spark import application, poll, put, watchdog
from airflow_provider_connect.spark.attempts import Leftovers
from airflow_provider_connect.spark.capabilities.allowance import Dealer
from airflow_provider_connect.spark.capabilities.counts import Counts
from airflow_provider_connect.spark.capabilities.deadlines import Deadlines
from airflow_provider_connect.spark.capabilities.definitions import DefinitionGuard
from airflow_provider_connect.spark.capabilities.grouping import Grouping
from airflow_provider_connect.spark.capabilities.resuming import Resuming
from airflow_provider_connect.spark.context import Context, Executors, Intake, Outlet, fingerprint_of, stage_root
from airflow_provider_connect.spark.days.check import Checker
from airflow_provider_connect.spark.days.freeze import Freezer
from airflow_provider_connect.spark.days.life import Days
from airflow_provider_connect.spark.days.plan import Planner
from airflow_provider_connect.spark.days.poll import PlanPoller
from airflow_provider_connect.spark.days.publish import DayPublisher
from airflow_provider_connect.spark.days.sweep import sweep
from airflow_provider_connect.spark.days.window import move_all
from airflow_provider_connect.spark.progress import Progress, Rows, say
from airflow_provider_connect.spark.transform import begin as transforming
from airflow_provider_connect.stage.temporary import polled_root
from airflow_provider_connect.values.ddl import types_by_column
from airflow_provider_connect.window import groups


def run(
    job: JobConfig, connections: Connections, started: float, dealer: Dealer, starting: Callable[[], Any]
) -> JobReport:
    """Move the days of a job; return the report.

    :param started: when the driver began, on the monotonic clock.
    :param starting: waits for the Spark context.
    """
    source: Source = registry.source_class(job.source_name).of(job.source)
    sink: Sink = registry.sink_class(job.sink_name).of(job.sink)
    key = StreamKey(connector=job.source_name, stream=source.stream_key)
    connection = connections[source.conn_id]
    shaping = Shaping.of(Chain.of(job.shape), connections)
    polling = PollContext(spark=functools.cache(lambda: _sql_session(starting())))
    with (
        closing_quietly(source.open(connection, polling), say) as poller,
        closing_quietly(sink.open(key, connections), say) as publisher,
    ):
        intake = Intake(source, connection, poller, poller.schema(), shaping)
        shaping.bind(intake.read)  # a key that is missing is told before anything is asked for
        transformation, sql_seconds = transforming.begun(job, intake.schema, starting)
        result = intake.schema if transformation is None else transformation.schema
        if problems := publisher.preflight(result, job.all_days, source.kind):
            raise ConfigError("; ".join(problems) + transforming.hint(result, intake.schema))
        own = sink.stage_root(connections)
        outlet = Outlet(sink, publisher, key, result, stage_root(own, job), keeps_stage=own is not None)
        guard = DefinitionGuard.of(job, intake, outlet)
        sc = starting()
        seconds = {"start": time.monotonic() - started} | ({"sql_session": sql_seconds} if transformation else {})
        counts = Counts(source, poller, job.rules, dealer.counts)
        # With a transform the ledger knows how many rows were made, which tells nothing of a poll.
        rows = None if transformation else Rows(publisher.ledger, source.kind, counts.known)
        polled = polled_root(outlet.root) if transformation else outlet.root
        with Progress(polled, job.progress_seconds, len(job.all_days), rows) as progress:
            context = Context(job, intake, outlet, progress, is_transformed=transformation is not None)
            width, executors = _executors(context, connections, sc, dealer.width)
            freezer = freezer_of(context, executors, dealer, counts)
            days = Days(
                context,
                transforming.freezing(transformation, freezer, context),
                Checker(context, counts),
                DayPublisher(context, executors.put_shares),
                watchdog.sees_task,
                guard,
            )
            deadlines = freezer.planner.deadlines
            reports = move_all(days, _grouping(context, deadlines, dealer), width)
        seconds["work"] = time.monotonic() - started - seconds["start"]
        swept_files = sweep(outlet)
    application.silence(sc)
    fields = {"warnings": tuple(guard.warnings), "seconds": seconds, "swept_files": swept_files}
    return _report(context, reports, deadlines, **fields)


def freezer_of(context: Context, executors: Executors, dealer: Dealer, counts: Counts | None) -> Freezer:
    """Put the steps together that bring days into the stage as they were polled."""
    leftovers = Leftovers(context.polled_root, context.job.attempt, functools.partial(fingerprint_of, context))
    resuming = Resuming(context.intake.poller, leftovers)
    planner = Planner(Deadlines(context.intake, leftovers), resuming, counts)
    return Freezer(context.intake, leftovers, planner, PlanPoller(context, executors, dealer, resuming))


def _executors(context: Context, connections: Connections, sc: Any, most: int) -> tuple[int, Executors]:
    """Return how many days are under way at a time, and what runs on the executors."""
    job, intake, outlet = context.job, context.intake, context.outlet
    parallel_days = 1 if intake.source.kind == "increment" else intake.source.parallel_days
    width = min(parallel_days, sc.defaultParallelism, most)
    plans = max(1, min(width, len(groups(job.all_days, days_per_plan(intake.poller)))))

    def put_shares(token: Any, shares: list[Any]) -> list[Any]:
        run_put = functools.partial(
            put.run,
            sink_name=job.sink_name,
            sink=job.sink,
            key=outlet.key,
            token=token,
            stage=outlet.root.url,
            connections=connections,
        )
        return put.receipts(application.collect(sc, shares, run_put))

    return width, Executors(
        poll_parts=_poll_parts(sc, intake),
        put_shares=put_shares if isinstance(outlet.publisher, StagesByExecutors) else None,
        parts_at_once=max(1, most // plans),
        plans_at_once=plans,
    )


def _poll_parts(sc: Any, intake: Intake) -> Callable[[list[str]], list[str]]:
    if isinstance(intake.poller, ReadBySpark):
        from airflow_provider_connect.spark.capabilities.frames import pollster  # noqa: PLC0415  # slow, and few sources need it

        return pollster(intake.poller, intake.read, intake.connection, intake.shaping)
    run_poll = functools.partial(poll.run, schema=intake.read, connection=intake.connection, shaping=intake.shaping)
    return lambda tasks: application.collect(sc, tasks, run_poll)


def _sql_session(sc: Any) -> Any:
    from airflow_provider_connect.spark.capabilities.frames import sql_session  # noqa: PLC0415  # slow, and few sources need it

    return sql_session(sc)


def _grouping(context: Context, deadlines: Deadlines, dealer: Dealer) -> Grouping:
    """Reserve the requests that the days cost, and return what decides which days one plan takes."""
    job, intake = context.job, context.intake
    alone = deadlines.alone if days_per_plan(intake.poller) > 1 else ()
    if job.allowance is not None and job.count_allowance is None:
        counting = intake.source.capability(capabilities.Counts) or capabilities.Counts()
        dealer.counts.is_reserved = counting.count_quota(intake.connection) is None
    requests = requests_for(intake.source, job.all_days, alone)
    dealer.expect(requests, most_each=intake.source.retry_budget_requests)
    return Grouping(intake.poller, job.all_days, context.outlet.publisher.ledger, alone)


def _report(context: Context, days: list[DayReport], deadlines: Deadlines, **fields: Any) -> JobReport:
    intake, chain = context.intake, context.intake.shaping.chain
    fields["columns"] = types_by_column(intake.read)
    fields["result_columns"] = types_by_column(context.outlet.schema) if context.is_transformed else None
    if chain and (staged := types_by_column(intake.schema)):
        fields |= {"staged_columns": staged, "made_of": chain.made_of(intake.read)}
    report = JobReport.of(context.job.attempt, days, **fields)
    waits = report.failure is not None and report.failure.type == QuotaError.__name__
    return report.model_copy(update={"to_count": deadlines.dates, "alone": deadlines.alone}) if waits else report
