"""Sources in a notebook: every source of the registry as a Spark data source.

.. code-block:: python

    from airflow_provider_connect.sources.mixpanel import MixpanelSource
    from airflow_provider_connect.spark.datasource import register

    register(spark)
    events = (
        spark.read.format("mixpanel")
        .option("config", MixpanelSource(zone="US/Pacific", timestamps="utc").model_dump_json())
        .option("days", "2026-10-05..2026-10-06")
        .load()
    )

========== ==============================================================================================
config     the source's options as JSON; default: ``{}``
days       ``2026-10-05``, or ``2026-10-05..2026-10-06`` with both ends included; required
connection reference to the connection, see below; default: ``AIRFLOW_CONN_<CONN_ID>``
========== ==============================================================================================

A reference contains no secret. The forms are

* the name of an environment variable with a connection in Airflow's JSON form
  (https://airflow.apache.org/docs/apache-airflow/stable/howto/connection.html, 2026-11). Set the variable before Spark
  starts: a child process of the JVM plans sources, with the JVM's environment.
* the absolute path of a file with the same JSON, readable by its owner only (mode 0600).

The driver resolves the reference. Executors get the connection inside a pickled task, which Spark never prints.

Columns are the source's, and ``day`` (DATE). Every action polls again, and Spark retries failed tasks. Rejects within
``errors_tolerance`` are only counted, in the executor's log. On a cluster, install this package or send it with
``spark.sparkContext.addPyFile``.

Spark lower-cases option names, turns values into text and may show them, so options are one JSON text without secrets.
Errors lose their type on the way to the notebook. Their text names the class.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pydantic import ValidationError
from pyspark.sql import datasource as spark_api
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.poller import SeveralDaysARequest
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.config import describe_problems
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, Failure
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import ALONE, InputPartition, PollContext, Poller, Source
from airflow_provider_connect.spark.progress import log_line
from airflow_provider_connect.spark.source_checks import plan_days, poll_rows
from airflow_provider_connect.window import Day, group_days, parse_days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


_OPTIONS = {"config", "days", "connection"}


_SPARK_FORMATS = ("kafka", "jdbc", "csv", "json", "text", "parquet", "orc", "avro", "xml")


def format_name(connector: str) -> str:
    """Return the name of a source for ``spark.read.format``. Spark refuses a source with the name of one of its own."""
    return f"connect_{connector}" if connector in _SPARK_FORMATS else connector


def register(spark: SparkSession) -> list[str]:
    """Register every source in this session. Returns their names for ``spark.read.format``."""
    names = registry.names("sources")
    for name in names:
        spark.dataSource.register(type(f"{name.title()}Data", (SourceData,), {"connector": name}))
    return [format_name(name) for name in names]


class SourceData(spark_api.DataSource):
    """A source as Spark's ``DataSource``.

    :raises ConfigError: an option is unknown, missing or wrong.
    """

    connector: ClassVar[str]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if unknown := sorted(set(options) - _OPTIONS):
            raise ConfigError(
                f"{self.connector}: unknown option {', '.join(unknown)}. Known options: {', '.join(sorted(_OPTIONS))}. "
                "Put the source's options into 'config', as JSON"
            )
        if "days" not in options:
            raise ConfigError(f"{self.connector}: option 'days' is required, such as '2026-10-05..2026-10-06'")
        self._source: Source = registry.source_class(self.connector).from_options(
            _parse_config(options.get("config", "{}"))
        )
        self._days = parse_days(options["days"], self._source.timezone)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``spark.read.format``, such as ``sql``, or ``connect_kafka`` beside Spark's ``kafka``."""
        return format_name(cls.connector)

    def schema(self) -> StructType:
        """Return the source's columns and ``day``.

        :raises ConfigError: the connection is missing or does not fit the options.
        """
        with _open(self._source, self._connection()) as poller:
            columns = [field for field in poller.schema() if field.name != "day"]
        return from_arrow_schema(pa.schema([*columns, pa.field("day", pa.date32(), nullable=False)]))

    def reader(self, schema: StructType) -> SourceReader:
        """Return the reader. Raises like :meth:`schema`."""
        return SourceReader(self._source, self._days, self._connection(), schema)

    def _connection(self) -> Connection:
        connection = resolve_connection(self.options.get("connection"), self._source.conn_id)
        if problems := self._source.check(connection):
            raise ConfigError("; ".join(problems))
        return connection


class SourceReader(spark_api.DataSourceReader):
    """Polls days on the executors, one task for each partition. Spark pickles it, and never prints it."""

    def __init__(self, source: Source, days: list[Day], connection: Connection, schema: StructType) -> None:
        self._source = source
        self._days = days
        self._connection = connection
        self._schema = schema

    def partitions(self) -> Sequence[spark_api.InputPartition]:
        """Return the planned partitions of the days, oldest first. Driver. Raises like :meth:`read`."""
        with _open(self._source, self._connection, PollContext(is_closed_before_polls=True)) as poller:
            days_per_plan = 1
            if isinstance(poller, SeveralDaysARequest):
                days_per_plan = poller.days_together(self._days, lambda: ()).days  # no day's size is known here
            return [
                spark_api.InputPartition(part.model_dump_json())
                for group in group_days(self._days, days_per_plan)
                for part in plan_days(poller, group)
            ]

    def read(self, partition: spark_api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Executor.

        :raises ConnectError: the source's error. For other exceptions, the message has only type and location.
        """
        part = InputPartition.model_validate_json(partition.value)
        target = to_arrow_schema(self._schema, timezone="UTC")
        tally = Tally(part.days)
        with _open(self._source, self._connection) as poller:
            for day, batch in poll_rows(poller, part, tally):
                yield _add_day_column(batch, day, target)
        for day in part.days:
            rows, dropped = tally.for_day(day).rows, sorted(tally.for_day(day).counts.items())
            counts = ", ".join(f"{name} {count:,}" for name, count in dropped)
            log_line(f"day {day}, partition {part.index}: {rows:,} rows read; {counts or 'nothing dropped'}")


@contextmanager
def _open(source: Source, connection: Connection, context: PollContext = ALONE) -> Iterator[Poller]:
    """Open a source for a block. Any exception in the block becomes an error of this package."""
    try:
        with closing_quietly(source.open(connection, context), log_line) as poller:
            yield poller
    except Exception as error:  # noqa: BLE001  # the text of a foreign error may hold secrets
        raise Failure.from_error(error).error() from None


def _parse_config(text: str) -> dict[str, object]:
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise ConfigError("option 'config' is not a JSON object. Set it to the source's options, or to {} for none")
    return config


def _add_day_column(batch: pa.RecordBatch, day: Day, target: pa.Schema) -> pa.RecordBatch:
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["day"] = pa.repeat(pa.scalar(day.date, pa.date32()), batch.num_rows)
    if missing_columns := [name for name in target.names if name not in columns]:
        raise ConfigError(f"the source has no column {', '.join(missing_columns)}. Remove or correct .schema()")
    return pa.record_batch([columns[field.name].cast(field.type) for field in target], schema=target)


_REFERENCE = re.compile(r"/.+|[A-Za-z_][A-Za-z0-9_]*")
_FIELD_NAMES = {"schema": "path"}
_UNUSED = {"description", "conn_id"}


def resolve_connection(reference: str | None, conn_id: str) -> Connection:
    """Return the connection that a reference names.

    :param reference: None for ``AIRFLOW_CONN_<CONN_ID>``.
    :raises ConfigError: the variable or file is missing, others can read the file, or it holds no connection.
    """
    location = reference or f"AIRFLOW_CONN_{conn_id.upper()}"
    if not _REFERENCE.fullmatch(location):
        # Not printed: it may be the connection itself.
        raise ConfigError(
            "option 'connection' is neither the name of an environment variable nor an absolute path. Set it to a "
            "variable's name or to a path, not to the connection itself"
        )
    return _parse_connection(
        _read_private_file(Path(location)) if location.startswith("/") else _read_variable(location), conn_id, location
    )


def _read_variable(name: str) -> str:
    text = os.environ.get(name)
    if not text:
        raise ConfigError(
            f"environment variable {name} is not set on Spark's driver. Set it before Spark starts, or set "
            "option 'connection' to the absolute path of a private file"
        )
    return text


def _read_private_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigError(f"connection file {path} is readable by other users. Run: chmod 600 {path}")
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"connection file {path} cannot be read ({type(error).__name__})") from None


def _parse_connection(text: str, conn_id: str, location: str) -> Connection:
    fields = _parse_object(text, location)
    extra = fields.pop("extra", None) or {}
    if isinstance(extra, str):
        extra = _parse_object(extra, f"extra of {location}")
    connection_fields = {_FIELD_NAMES.get(name, name): value for name, value in fields.items() if name not in _UNUSED}
    for name in ("host", "path", "login", "password"):
        connection_fields[name] = connection_fields.get(name) or None
    try:
        return Connection(**connection_fields, conn_id=conn_id, extra=extra)
    except ValidationError as error:
        raise ConfigError(f"{location}: {describe_problems(Connection, error)}") from None


def _parse_object(text: str, location: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigError(f"{location} does not contain a JSON object. Write the connection as JSON, not as a URI")
    return fields
