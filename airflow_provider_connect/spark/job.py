"""The driver: what spark-submit starts, with the path of a job file as its only argument.

Beside the job file lie the connections (deleted as soon as they are read) and the lock that tells whether the task is
alive. The report is always written; its failure decides the exit code.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Python puts this folder first on the path, where its files would hide modules of the same name.
    del sys.path[0]

import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.counting import count_quota
from airflow_provider_connect.capabilities.quota import requests_for
from airflow_provider_connect.capabilities.several_days import days_per_plan
from airflow_provider_connect.capabilities.spark_reading import ReadBySpark
from airflow_provider_connect.capabilities.staging import StagesByExecutors
from airflow_provider_connect.capabilities.sweeping import Sweeps
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.connection import Connection, read_connections
from airflow_provider_connect.definition import before_definitions, with_key
from airflow_provider_connect.errors import ConfigError, Failure, QuotaError, RetriableError
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.shapes.chain import Chain, Shaping
from airflow_provider_connect.sink import Connections, Sink, StreamKey
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.spark import watchdog
from airflow_provider_connect.spark.allowance import Dealer
from airflow_provider_connect.spark.counts import Counts
from airflow_provider_connect.spark.grouping import DaysLeft, Grouping
from airflow_provider_connect.spark.progress import Progress, Rows, say
from airflow_provider_connect.spark.transform import begin as transforming
from airflow_provider_connect.stage import temporary as temporary_stage
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.values.ddl import types_by_column
from airflow_provider_connect.window import groups

if TYPE_CHECKING:
    from pyspark import SparkContext

    from airflow_provider_connect.spark.days import Days
    from airflow_provider_connect.stage.storage import Folder

JOB_FILE, CONNECTIONS_FILE, LOCK_FILE = "job.json", "connections.json", "alive.lock"


def main(argv: list[str]) -> int:
    """Run the job in the file that ``argv`` names; return the exit code."""
    started = time.monotonic()
    job_file = _shipped(Path(argv[1]))
    watchdog.start(job_file.with_name(LOCK_FILE))
    job = JobConfig.model_validate_json(job_file.read_text(encoding="utf-8"))
    job_file.unlink()
    dealer = Dealer(job.allowance, job.count_allowance)
    try:
        report = _run(job, _connections(job, job_file), started, dealer)
    except Exception as error:  # noqa: BLE001  # the report carries every error, by type, to Airflow
        report = JobReport(attempt=job.attempt, failure=Failure.of(error))
    seconds = report.seconds | {"total": time.monotonic() - started}
    report = report.model_copy(update={"seconds": seconds} | dealer.figures() | dealer.counts.figures())
    try:
        _write(job.report, report)
    except BaseException:
        _say_why(report)
        raise
    if job.is_remote and not any(day.failure == report.failure for day in report.days):
        _say_why(report)
    return report.exit_code


def _say_why(report: JobReport) -> None:
    """Print why the job failed, where the task does not do so itself."""
    if report.failure is not None:
        say(f"{report.failure.type}: {report.failure.message}")


def _run(job: JobConfig, connections: Connections, started: float, dealer: Dealer) -> JobReport:
    starting = _start_spark()
    source: Source = registry.source_class(job.source_name).of(job.source)
    sink: Sink = registry.sink_class(job.sink_name).of(job.sink)
    key = StreamKey(connector=job.source_name, stream=source.stream_key)
    connection = connections[source.conn_id]
    shaping = Shaping.of(Chain.of(job.shape), connections)
    context = PollContext(spark=functools.cache(lambda: _sql_session(starting())))
    with (
        closing_quietly(source.open(connection, context), say) as poller,
        closing_quietly(sink.open(key, connections), say) as publisher,
    ):
        read = poller.schema()
        schema = shaping.chain.schema(read)
        shaping.bind(read)  # a key that is missing is told before anything is asked for
        transformation, sql_seconds = transforming.begun(job, schema, starting)
        result = schema if transformation is None else transformation.schema
        if problems := publisher.preflight(result, job.all_days, source.kind):
            raise ConfigError("; ".join(problems) + transforming.hint(result, schema))
        own = sink.stage_root(connections)
        root = _stage(own, job)

        # imported late: pyarrow loads while the JVM starts
        from airflow_provider_connect.spark.days import Days  # noqa: PLC0415
        from airflow_provider_connect.spark.definitions import DefinitionGuard  # noqa: PLC0415

        identifies_by_key = sink.identifies_by_key(source.kind)
        definition = with_key(job.definition, read.metadata)
        guard = DefinitionGuard(
            definition,
            source,
            publisher,
            job.intent,
            identifies_by_key=identifies_by_key,
            replaces_whole=sink.replaces_whole(source.kind),
            earlier=before_definitions(definition, read.metadata),
        )
        freezer_class, polled_root = transforming.polling(transformation, root)
        sc = starting()
        seconds = {"start": time.monotonic() - started} | ({"sql_session": sql_seconds} if transformation else {})
        counts = Counts(source, poller, job.rules, dealer.counts)
        parallel_days = 1 if source.kind == "increment" else source.parallel_days
        width = min(parallel_days, sc.defaultParallelism, dealer.width)
        plans = min(width, len(groups(job.all_days, days_per_plan(poller))))
        # With a transform the ledger knows how many rows were made, which tells nothing of a poll.
        rows = Rows(publisher.ledger, source.kind, counts.known) if transformation is None else None
        with Progress(polled_root, job.progress_seconds, len(job.all_days), rows) as progress:
            freezer = freezer_class(
                job=job,
                source=source,
                sink=sink,
                connection=connection,
                poller=poller,
                schema=schema,
                root=polled_root,
                progress=progress,
                poll_parts=_pollster(sc, poller, read, connection, shaping),
                dealer=dealer,
                counts=counts,
                parts_at_once=max(1, dealer.width // max(1, plans)),
                plans_at_once=max(1, plans),
                shaping=shaping,
            )
            days = Days(
                job=job,
                source=source,
                sink=sink,
                publisher=publisher,
                key=key,
                schema=result,
                root=root,
                keeps_stage=own is not None,
                progress=progress,
                freezer=transforming.freezing(transformation, freezer, root, publisher.ledger),
                put_shares=(
                    _putter(sc, job, key, root.url, connections) if isinstance(publisher, StagesByExecutors) else None
                ),
                task_lives=watchdog.sees_task,
                counts=counts,
                guard=guard,
            )
            if job.allowance is not None and job.count_allowance is None:
                dealer.counts.is_reserved = count_quota(source, connection) is None
            alone = freezer.deadlines.alone if days_per_plan(poller) > 1 else ()
            dealer.expect(requests_for(source, job.all_days, alone), most_each=source.retry_budget_requests)
            reports = _all_days(days, Grouping(poller, job.all_days, publisher.ledger, alone), width)
        seconds["work"] = time.monotonic() - started - seconds["start"]
        swept = _swept(root.url, lambda: transforming.swept(root)) + (
            _swept(sink.target, publisher.sweep) if isinstance(publisher, Sweeps) else 0
        )
        if own is None:
            swept += _swept(root.url, lambda: temporary_stage.sweep(root, root.now() - temporary_stage.SILENT))
    _hush(sc)
    told: dict[str, Any] = {"columns": types_by_column(read), "warnings": tuple(guard.warnings)}
    told["result_columns"] = types_by_column(result) if transformation else None
    if shaping.chain and (staged := types_by_column(schema)):
        told |= {"staged_columns": staged, "made_of": shaping.chain.made_of(read)}
    report = JobReport.of(job.attempt, reports, seconds=seconds, swept_files=swept, **told)
    waits = report.failure is not None and report.failure.type == QuotaError.__name__
    late = freezer.deadlines
    return report.model_copy(update={"to_count": late.dates, "alone": late.alone}) if waits else report


def _hush(sc: SparkContext) -> None:
    """Keep the JVM's shutdown out of the log: all is done, and Spark's complaints then help nobody."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    try:
        sc.setLogLevel("OFF")
    except Py4JError as error:
        say(f"the JVM ended before its job: {_cause(str(error))}")


def _stage(own: str | None, job: JobConfig) -> Folder:
    """Return where days are staged.

    :param own: the sink's own stage, if it has one.
    :raises ConfigError: there is no staging option, or it names a place in a Delta table.
    """
    from airflow_provider_connect.stage.storage import Folder  # noqa: PLC0415

    if own is not None:
        return Folder(own)
    if job.staging is None:
        raise ConfigError(f"sink {job.sink_name!r} needs a place for the stage: give the operator staging=")
    root = Folder(job.staging)
    if (table := _table_around(root.url)) is not None:
        raise ConfigError(
            f"staging={job.staging!r} lies in the Delta table {table}, whose files a sweep of the stage would delete, "
            "and whose vacuum would delete the stage: name another place"
        )
    return root


def _table_around(url: str) -> str | None:
    """Return the Delta table, or the root of several, that a folder is or lies in, at any depth; None if none."""
    from airflow_provider_connect.stage.storage import Folder  # noqa: PLC0415
    from airflow_provider_connect.stage.tables import HEAD  # noqa: PLC0415

    scheme, separator, named = url.rpartition("://")
    places = [named.split("/"), *([] if scheme else [os.path.realpath(named).split("/")])]  # a link may lead into one
    above = ["/".join(place[:depth]) for place in places for depth in range(len(place), 0, -1)]
    for path in dict.fromkeys(filter(None, above)):
        folder = Folder(f"{scheme}{separator}{path}")
        try:
            if folder.exists("_delta_log") or folder.exists(f"{HEAD}/_delta_log"):
                return folder.url
        except (ConfigError, RetriableError):
            # This user may have no right to look above the folder; stores report that in many ways.
            if folder.url == url:
                raise
    return None


def _swept(place: str, sweep: Callable[[], int]) -> int:
    """Clean up; a failure is only logged, since it must not hide how the days ended."""
    try:
        return sweep()
    except Exception as error:  # noqa: BLE001
        say(f"files of dead attempts under {place} could not be swept: {Failure.of(error).message}")
        return 0


def _all_days(days: Days, together: int | Grouping, width: int) -> list[DayReport]:
    """Move every day: those of the window, oldest first, then those of the lookback.

    :param together: how many days one plan takes, or what decides that before each.
    :param width: how many plans are under way at once.

    No further day begins after a ConfigError, after the source asked for more time than a task may wait, or after a
    poll spent its budget of requests: each day would only send more requests, which sources count.
    """
    stop = threading.Event()
    left = DaysLeft(days.job.all_days, together)

    def move_some() -> None:
        while group := left.take():
            if stop.is_set():
                left.end([DayReport.of(day, "not_started", lookback=day in days.job.lookback) for day in group])
                continue
            try:
                reports = days.move(group)
            except BaseException:
                stop.set()
                raise
            left.end(reports)
            if any(report.failure is not None and report.failure.forbids_more for report in reports):
                stop.set()

    threads = max(1, min(width, len(days.job.all_days)))
    with ThreadPoolExecutor(max_workers=threads, thread_name_prefix="day") as pool:
        for moved in [pool.submit(move_some) for _ in range(threads)]:
            moved.result()
    return left.reports


def _sql_session(sc: SparkContext) -> Any:
    from airflow_provider_connect.spark.frames import sql_session  # noqa: PLC0415

    return sql_session(sc)


def _pollster(
    sc: SparkContext, poller: Poller, schema: Any, connection: Connection, shaping: Shaping
) -> Callable[..., list[str]]:
    if isinstance(poller, ReadBySpark):
        from airflow_provider_connect.spark.frames import pollster  # noqa: PLC0415

        return pollster(poller, schema, connection, shaping)
    from airflow_provider_connect.spark import poll  # noqa: PLC0415

    run = functools.partial(poll.run, schema=schema, connection=connection, shaping=shaping)
    return lambda tasks: _collect(sc, tasks, run)


def _collect(sc: SparkContext, items: list[Any], run: Callable[[Iterable[Any]], Iterable[Any]]) -> list[Any]:
    """Run one Spark task for each item. Tasks return their errors as data: one raised here is Spark's own."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    if not items:
        return []
    try:
        return sc.parallelize(items, len(items)).mapPartitions(run).collect()
    except Py4JError as error:
        raise RetriableError(
            f"Spark lost a task: {_cause(str(getattr(error, 'java_exception', None) or error))}"
        ) from None


def _cause(text: str) -> str:
    """Return the line of a Spark error that names the cause: the last of a Python traceback, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b", line)]
    return (ends or lines or ["no message"])[0][:300]


def _putter(
    sc: SparkContext, job: JobConfig, key: StreamKey, stage: str, connections: Connections
) -> Callable[..., list[Any]]:
    from airflow_provider_connect.spark import put  # noqa: PLC0415

    def put_shares(token: Any, shares: list[tuple[StagedFile, ...]]) -> list[Any]:
        run = functools.partial(
            put.run,
            sink_name=job.sink_name,
            sink=job.sink,
            key=key,
            token=token,
            stage=stage,
            connections=connections,
        )
        return put.receipts(_collect(sc, shares, run))

    return put_shares


def _start_spark() -> Any:
    """Start the Spark context while this thread imports; return a function that waits for it."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    # Arrow's own pool gives little back: a poll that needs 20 MB at a time would hold 40 MB more, and be no faster.
    conf = SparkConf().setIfMissing("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL", "system")
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start")
    started = pool.submit(SparkContext, conf=conf)
    # A first task starts the Python workers meanwhile, too.
    pool.submit(lambda: started.result().parallelize([0], 1).count())
    pool.shutdown(wait=False)
    return started.result


def _connections(job: JobConfig, job_file: Path) -> Connections:
    """Read the connections, and delete their file.

    :raises ConnectError: they are gone, or the task did not write them.
    """
    if job.sealed_connections is not None:
        from airflow_provider_connect.submit import sealed  # noqa: PLC0415  # it needs pyarrow

        return sealed.unseal(job.sealed_connections)
    file = job_file.with_name(CONNECTIONS_FILE)
    try:
        return read_connections(file)
    except FileNotFoundError:
        raise RetriableError(
            f"{file} is gone: somebody cleans the worker's temporary folder; the next try writes it again"
        ) from None
    finally:
        file.unlink(missing_ok=True)


def _shipped(path: Path) -> Path:
    """Return where the file is: in cluster mode Spark puts shipped files into the working folder."""
    return path if path.exists() else Path.cwd() / path.name


def _write(target: str, report: JobReport) -> None:
    from airflow_provider_connect.stage.storage import Folder  # noqa: PLC0415

    folder, _, name = target.rpartition("/")
    Folder(folder).write(name, report.model_dump_json().encode())


if __name__ == "__main__":
    code = main(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without SparkContext.stop(), which would wait a second: the JVM's own hook stops it too.
    os._exit(code)
