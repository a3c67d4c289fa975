"""Polls of sources whose rows Spark itself reads: its batches go the way of all others into the stage.

Each partition is a job of one task. The JVM reads, and a Python worker freezes what it is handed. What was handed over
is gone, so the task does not try again by itself: the driver does, with a new read.
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
_TALKATIVE = ("executor.Executor", "scheduler.TaskSetManager", "scheduler.DAGScheduler", "sql.execution")
"""Loggers of Spark's that print an exception with its text, which may hold a value. Our message names it without."""


_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(_BATCH_BYTES),
    # Over Parquet, Spark 4.2.0 runs a Python UDF in a way that never ends: SPARK-58241.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}


def sql_session(sc: SparkContext) -> Any:
    """Return the session that reads a source, set so that it changes no value."""
    session = plain_session(sc)
    _use_utc(sc)
    return session


def plain_session(sc: SparkContext) -> Any:
    """Return the session for whatever speaks to Spark SQL alone, wherever its executors' clocks stand."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # slow, and most sources do without it

    return configure_session(SparkSession(sc))


def configure_session(session: Any) -> Any:
    """Return a session, set so that it changes no value, and prints none."""
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    sc = session.sparkContext
    jvm: Any = sc._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in _TALKATIVE:
        log4j.core.config.Configurator.setLevel(f"org.apache.spark.{name}", log4j.Level.OFF)
    _hush_python()
    return session


def _hush_python() -> None:
    """Keep PySpark itself from printing each exception of Spark SQL, with a stack and a text that may hold a value."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  # slow

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _use_utc(sc: SparkContext) -> None:
    """Have drivers make times on a clock that never jumps: in any other zone an hour of the year is another one."""
    jvm: Any = sc._jvm
    zone = jvm.java.util.TimeZone
    zone.setDefault(zone.getTimeZone("UTC"))
    options = (sc.getConf().get("spark.executor.extraJavaOptions", "") or "").split()
    zones = [option for option in options if option.startswith("-Duser.timezone=")]
    is_local = sc.master == "local" or str(sc.master).startswith("local[")  # and not local-cluster
    if not is_local and zones[-1:] != ["-Duser.timezone=UTC"]:
        raise ConfigError(
            "Spark reads this source, and executors in another zone would shift times: give the operator "
            "conf={'spark.executor.extraJavaOptions': '-Duser.timezone=UTC'}"
        )


def make_frame_poller(
    poller: ReadBySpark, schema: pa.Schema, connection: Connection, shaping: Shaping = NO_SHAPES
) -> Callable[[list[str]], list[str]]:
    """Return what polls partitions, all at once; tasks come and outcomes go as JSON."""
    # The rows come from the JVM: a task needs no secret.
    public = connection.model_copy(update={"login": None, "password": None, "extra": {}})

    def poll(tasks: list[str]) -> list[str]:
        if not tasks:
            return []
        with ThreadPoolExecutor(len(tasks), thread_name_prefix="frame") as pool:
            polled = functools.partial(_polled, poller, schema=schema, connection=public, shaping=shaping)
            return [outcome.model_dump_json() for outcome in pool.map(polled, tasks)]

    return poll


def _polled(
    poller: ReadBySpark, text: str, *, schema: pa.Schema, connection: Connection, shaping: Shaping
) -> PollOutcome:
    """Poll one partition; after a retriable error again, within the budget."""
    task = PollTask.model_validate_json(text)
    source: Source = registry.source_class(task.source_name).from_options(task.source)
    patience = Patience(source.retry_budget_seconds, RETRY_PAUSES, jitter=FROM_HALF)
    retries: list[str] = []
    while True:
        try:
            outcome = _read(poller, task, text, schema=schema, connection=connection, shaping=shaping)
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


def _read(
    poller: ReadBySpark, task: PollTask, text: str, *, schema: pa.Schema, connection: Connection, shaping: Shaping
) -> PollOutcome:
    def freeze(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({_OUTCOME: [stage_batches(text, batches, schema, connection, shaping)]})

    frame = poller.frame(task.part)
    try:
        rows = frame.mapInArrow(freeze, f"{_OUTCOME} string").collect()
    except Exception as error:  # noqa: BLE001  # the JVM's, whose text may hold anything
        raise poller.error_of(error) from None
    if len(rows) != 1:
        raise ConnectError(f"Spark read a partition in {len(rows)} pieces, where one was planned")
    return PollOutcome.model_validate_json(rows[0][0])


def stage_batches(
    text: str,
    batches: Iterator[pa.RecordBatch],
    schema: pa.Schema,
    connection: Connection,
    shaping: Shaping = NO_SHAPES,
) -> str:
    """Freeze what Spark read of a partition. Executor; a task comes and its outcome goes as JSON.

    What it says holds only if Spark does not fail the task: the batches of a read that breaks just end.
    """
    task = PollTask.model_validate_json(text)
    try:
        source: Source = registry.source_class(task.source_name).from_options(task.source)
        with closing_quietly(source.open(connection, PollContext()), log_line) as poller:
            tally = Tally(task.part.days, task.polled_before)
            handed = _Handed(poller, require_capability(poller, ReadBySpark, "Spark has read its rows"), batches)
            polled = stage_partition_once(
                handed, Folder(task.root), task, schema, shaping=shaping, tally=tally, retry_notes=[]
            )
        outcome = PollOutcome(polled=polled)
    except Exception as error:  # noqa: BLE001  # every error returns as data, with its type
        outcome = PollOutcome(failure=Failure.from_error(error))
    return outcome.model_dump_json()


class _Handed(Poller):
    """A poller whose rows have been read: it polls what it is handed, once."""

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
