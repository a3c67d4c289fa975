"""Polls sources whose rows Spark itself reads, and stages the rows like all others.

Each partition is a Spark job with one task: the JVM reads, and a Python worker stages the batches. The driver retries
with a new read, since batches cannot be read twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.poller import ReadBySpark
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, Failure, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.registry import require_capability
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.source import InputPartition, PollContext, Poller, Source
from airflow_provider_connect.spark.poll import NO_SHAPES, RETRY_PAUSES, PollOutcome, PollTask, stage_partition_once
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    from pyspark import SparkContext

_OUTCOME = "outcome"
_BATCH_BYTES = 4 << 20
_LEAKY_LOGGERS = ("executor.Executor", "scheduler.TaskSetManager", "scheduler.DAGScheduler", "sql.execution")
"""Spark loggers that print the text of exceptions, which may contain a value."""


_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    # Over Parquet, Spark 4.2.0 runs a Python UDF in a way that never ends: SPARK-58241.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}


def sql_session(sc: SparkContext) -> Any:
    """Return the session that reads a source, configured to change no value.

    :raises ConfigError: executors run in another zone than UTC.
    """
    session = plain_session(sc)
    _use_utc(sc)
    return session


def plain_session(sc: SparkContext) -> Any:
    """Return a Spark SQL session for staged rows. The executors' time zone does not matter."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # slow, and most sources do without it

    return configure_session(SparkSession(sc))


def configure_session(session: Any) -> Any:
    """Configure a session to neither change nor log values, and return it."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    sc = session.sparkContext
    jvm: Any = sc._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in _LEAKY_LOGGERS:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)
    _silence_pyspark()
    return session


def _silence_pyspark() -> None:
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  # slow

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _use_utc(sc: SparkContext) -> None:
    """Have the JVM create times in UTC: other zones skip or repeat an hour each year."""
    jvm: Any = sc._jvm
    zone = jvm.java.util.TimeZone
    zone.setDefault(zone.getTimeZone("UTC"))
    options = (sc.getConf().get("spark.executor.extraJavaOptions", "") or "").split()
    zones = [option for option in options if option.startswith("-Duser.timezone=")]
    is_local = sc.master == "local" or str(sc.master).startswith("local[")  # and not local-cluster
    if not is_local and zones[-1:] != ["-Duser.timezone=UTC"]:
        raise ConfigError(
            "Spark reads this source, and executors in another zone would shift times. Set "
            "conf={'spark.executor.extraJavaOptions': '-Duser.timezone=UTC'} on the operator"
        )


def make_frame_poller(
    poller: ReadBySpark, schema: pa.Schema, connection: Connection, shaping: Shaping = NO_SHAPES
) -> Callable[[list[str]], list[str]]:
    """Return a function that polls partitions concurrently, from tasks to outcomes, both as JSON."""
    # The rows come from the JVM: a task needs no secret.
    public = connection.model_copy(update={"login": None, "password": None, "extra": {}})

    def poll(tasks: list[str]) -> list[str]:
        if not tasks:
            return []
        with ThreadPoolExecutor(len(tasks), thread_name_prefix="frame") as pool:
            poll_task = functools.partial(_poll_with_retries, poller, schema=schema, connection=public, shaping=shaping)
            return [outcome.model_dump_json() for outcome in pool.map(poll_task, tasks)]

    return poll


def _poll_with_retries(
    poller: ReadBySpark, text: str, *, schema: pa.Schema, connection: Connection, shaping: Shaping
) -> PollOutcome:
    task = PollTask.model_validate_json(text)
    source: Source = registry.source_class(task.source_name).from_options(task.source)
    patience = Patience(source.retry_budget_seconds, RETRY_PAUSES, jitter=FROM_HALF)
    retries: list[str] = []
    while True:
        try:
            outcome = _poll_once(poller, task, text, schema=schema, connection=connection, shaping=shaping)
            if outcome.failure is not None:
                raise outcome.failure.error()
        except RetriableError as error:
            pause = patience.next_pause(error.retry_after_seconds)
            if pause is None:
                return PollOutcome(failure=Failure.from_error(error), retries=tuple(retries))
            retries.append(f"waits {pause:.1f} s, then polls again ({error})")
            patience.sleep(pause)
        except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
            return PollOutcome(failure=Failure.from_error(error), retries=tuple(retries))
        else:
            return outcome.model_copy(update={"retries": tuple(retries)})


def _poll_once(
    poller: ReadBySpark, task: PollTask, text: str, *, schema: pa.Schema, connection: Connection, shaping: Shaping
) -> PollOutcome:
    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({_OUTCOME: [stage_batches(text, batches, schema, connection, shaping)]})

    frame = poller.frame(task.part)
    try:
        rows = frame.mapInArrow(stage, f"{_OUTCOME} string").collect()
    except Exception as error:  # noqa: BLE001  # the JVM's, whose text may hold anything
        raise poller.error_of(error) from None
    if len(rows) != 1:
        raise ConnectError(f"Spark read a partition in {len(rows)} parts instead of one")
    return PollOutcome.model_validate_json(rows[0][0])


def stage_batches(
    text: str,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    connection: Connection,
    shaping: Shaping = NO_SHAPES,
) -> str:
    """Stage a partition's batches from Spark. Executor. Takes a task and returns its outcome, as JSON.

    The outcome is valid only if the Spark task succeeds: if the read fails, its batches simply end.
    """
    task = PollTask.model_validate_json(text)
    try:
        source: Source = registry.source_class(task.source_name).from_options(task.source)
        with closing_quietly(source.open(connection, PollContext()), log_line) as poller:
            tally = Tally(task.part.days, task.polled_before)
            reader = _BatchPoller(poller, require_capability(poller, ReadBySpark, "Spark has read its rows"), batches)
            polled = stage_partition_once(
                reader, Folder(task.root), task, schema, shaping=shaping, tally=tally, retry_notes=[]
            )
        outcome = PollOutcome(polled=polled)
    except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
        outcome = PollOutcome(failure=Failure.from_error(error))
    return outcome.model_dump_json()


class _BatchPoller(Poller):
    """Yields batches that Spark has read, once."""

    def __init__(self, poller: Poller, reading: ReadBySpark, batches: Iterator[pa.RecordBatch]) -> None:
        self._poller = poller
        self._reading = reading
        self._batches = batches

    def schema(self) -> pa.Schema:
        return self._poller.schema()

    def plan(self, days: Any) -> list[InputPartition]:
        return self._poller.plan(days)

    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        return self._reading.rows_of(part, self._batches, tally)
