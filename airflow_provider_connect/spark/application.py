"""Starts the job's Spark application while the driver imports, runs its tasks, and silences its shutdown log."""

from __future__ import annotations

import functools
import gc
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.spark.progress import log_line

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pyspark import SparkContext

_REFUSED_SETTING = "IllegalArgumentException"
"""Spark's exception for a refused value, such as too little memory."""


_ALL_CORES = "local[*]"
_MAX_LOCAL_SLOTS = 8
"""Most tasks that a local master without a number runs at the same time for a source that waits. Each takes 0.2 GB."""


def start_context(concurrent_polls: int = 1) -> Any:
    """Start the Spark context in a background thread. Returns a function that waits for it.

    :param concurrent_polls: polls that wait for their source at the same time. They need slots rather than cores, so
        the master ``local[*]`` gets a slot for each of them.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start")
    started = pool.submit(_new_context, min(concurrent_polls, _MAX_LOCAL_SLOTS))
    # A first task starts the Python workers meanwhile, too.
    pool.submit(lambda: started.result().parallelize([0], 1).count())
    pool.shutdown(wait=False)
    return lambda: _started_context(started)


def _new_context(slots: int) -> SparkContext:
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    SparkContext._ensure_initialized()  # without the JVM, a SparkConf does not know what was submitted
    # Arrow's own pool gives little back: a poll that needs 20 MB at a time would hold 40 MB more, and be no faster.
    conf = SparkConf().setIfMissing("spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL", "system")
    if conf.get("spark.master", None) == _ALL_CORES:
        jvm: Any = SparkContext._jvm
        conf.setMaster(local_master(jvm.Runtime.getRuntime().availableProcessors(), slots))
    return SparkContext(conf=conf)


def local_master(cores: int, slots: int) -> str:
    """Return the local master that runs ``slots`` tasks at the same time, and at least one on each core."""
    return f"local[{max(cores, slots)}]"


def _started_context(started: Future[SparkContext]) -> SparkContext:
    from py4j.protocol import Py4JError  # noqa: PLC0415

    try:
        return started.result()
    except Py4JError as error:
        cause = _cause(str(getattr(error, "java_exception", None) or error)).rstrip(".")
        if _REFUSED_SETTING in cause:
            raise ConfigError(
                f"Spark does not start: {cause}. Correct driver_memory=, conf= or the connection"
            ) from None
        raise RetriableError(f"Spark does not start: {cause}") from None


def run_tasks(
    spark_context: SparkContext, tasks: list[Any], run_partition: Callable[[Iterable[Any]], Iterable[Any]]
) -> list[Any]:
    """Run one Spark task for each item, and return all results. Tasks return their errors as results.

    :raises RetriableError: Spark lost a task.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415

    if not tasks:
        return []
    try:
        run = functools.partial(_run_in_worker, run_partition=run_partition)
        return spark_context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()
    except Py4JError as error:
        raise RetriableError(
            f"Spark lost a task: {_cause(str(getattr(error, 'java_exception', None) or error))}"
        ) from None


def _run_in_worker(items: Iterable[Any], run_partition: Callable[[Iterable[Any]], Iterable[Any]]) -> Iterable[Any]:
    yield from run_partition(items)
    _freeze_modules()


@functools.cache
def _freeze_modules() -> None:
    """Keep what a worker has imported out of its garbage collections.

    PySpark collects after each task, which takes 50 ms with our modules, three times as long as a small table's poll.
    """
    from pyspark import TaskContext  # noqa: PLC0415

    if TaskContext.get() is not None:  # tests run tasks in their own process
        gc.freeze()


def silence_shutdown_log(spark_context: SparkContext) -> None:
    """Keep the JVM's shutdown messages out of the log."""
    from py4j.protocol import Py4JError  # noqa: PLC0415

    try:
        spark_context.setLogLevel("OFF")
    except Py4JError as error:
        log_line(f"the JVM ended before its job: {_cause(str(error))}")


def _cause(text: str) -> str:
    """Return the first line of a Spark error that names an exception, else its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    exception_lines = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b", line)]
    return (exception_lines or lines or ["no message"])[0][:300]
