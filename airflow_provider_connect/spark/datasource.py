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
config     the source's options as JSON; ``{}``, the default, for none
days       ``2026-10-05``, or ``2026-10-05..2026-10-06``, both ends included; required
connection where to find the connection, see :mod:`.reference`; default: ``AIRFLOW_CONN_<CONN_ID>``
========== ==============================================================================================

Columns are the source's own and ``day`` (DATE). Nothing is staged or remembered: every action polls anew, Spark retries
failed tasks, and rejects that ``errors_tolerance`` allows are counted in the executor's log only. On a cluster, install
this package or send it with ``spark.sparkContext.addPyFile``.

Spark lower-cases option names, turns values into text and may show them: so options are one JSON text without secrets.
Errors lose their type on the way to the notebook; the text names their class.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from pyspark.sql import datasource as spark_api
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from airflow_provider_connect import registry
from airflow_provider_connect.capabilities.poller import SeveralDaysARequest
from airflow_provider_connect.closing import closing_quietly
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, Failure
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.source import ALONE, InputPartition, PollContext, Poller, Source
from airflow_provider_connect.spark.asked import planned, polled
from airflow_provider_connect.spark.progress import say
from airflow_provider_connect.spark.reference import resolve
from airflow_provider_connect.window import Day, groups, parse_days

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_OPTIONS = {"config", "days", "connection"}


def register(spark: SparkSession) -> list[str]:
    """Make every source known to this session, and return their names."""
    names = registry.names("sources")
    for name in names:
        spark.dataSource.register(type(f"{name.title()}Data", (SourceData,), {"connector": name}))
    return names


class SourceData(spark_api.DataSource):
    """One source as Spark sees it.

    :raises ConfigError: if an option is unknown, missing or wrong.
    """

    connector: ClassVar[str]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        if unknown := sorted(set(options) - _OPTIONS):
            raise ConfigError(
                f"{self.connector}: unknown option {', '.join(unknown)}; known: {', '.join(sorted(_OPTIONS))}; "
                "the source's own options go into 'config', as JSON"
            )
        if "days" not in options:
            raise ConfigError(f"{self.connector}: option 'days' is required, such as '2026-10-05..2026-10-06'")
        self._source: Source = registry.source_class(self.connector).of(_config(options.get("config", "{}")))
        self._days = parse_days(options["days"], self._source.timezone)

    @classmethod
    def name(cls) -> str:
        """Return the name that ``spark.read.format`` takes: the connector's."""
        return cls.connector

    def schema(self) -> StructType:
        """Return the source's columns and ``day``.

        :raises ConfigError: if there is no such connection, or it does not fit the options.
        """
        with _opened(self._source, self._connection()) as poller:
            columns = [field for field in poller.schema() if field.name != "day"]
        return from_arrow_schema(pa.schema([*columns, pa.field("day", pa.date32(), nullable=False)]))

    def reader(self, schema: StructType) -> SourceReader:
        """Return the reader.

        :raises ConfigError: as :meth:`schema` does.
        """
        return SourceReader(self._source, self._days, self._connection(), schema)

    def _connection(self) -> Connection:
        """Return the connection, resolved on the driver."""
        connection = resolve(self.options.get("connection"), self._source.conn_id)
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
        """Return the partitions that the source plans for the days, oldest first. Driver.

        :raises ConnectError: as :meth:`read` does.
        """
        with _opened(self._source, self._connection, PollContext(is_closed_before_polls=True)) as poller:
            together = 1
            if isinstance(poller, SeveralDaysARequest):
                together = poller.days_together(self._days, lambda: ()).days  # no day's size is known here
            return [
                spark_api.InputPartition(part.model_dump_json())
                for group in groups(self._days, together)
                for part in planned(poller, group)
            ]

    def read(self, partition: spark_api.InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Executor.

        :raises ConnectError: what the source raised; of an error that is not ours, only its type and place are told.
        """
        part = InputPartition.model_validate_json(partition.value)
        target = to_arrow_schema(self._schema, timezone="UTC")
        tally = Tally(part.days)
        with _opened(self._source, self._connection) as poller:
            for day, batch in polled(poller, part, tally):
                yield _with_day(batch, day, target)
        for day in part.days:
            rows, dropped = tally.for_day(day).rows, sorted(tally.for_day(day).counts.items())
            counts = ", ".join(f"{name} {count:,}" for name, count in dropped)
            say(f"day {day}, partition {part.index}: {rows:,} rows read; {counts or 'nothing dropped'}")


@contextmanager
def _opened(source: Source, connection: Connection, context: PollContext = ALONE) -> Iterator[Poller]:
    """Open a source. Its errors leave the block as ours, and that it cannot be closed fails nothing."""
    try:
        with closing_quietly(source.open(connection, context), say) as poller:
            yield poller
    except Exception as error:  # noqa: BLE001  # the text of a foreign error may hold secrets
        raise Failure.of(error).error() from None


def _config(text: str) -> dict[str, object]:
    try:
        config = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise ConfigError("option 'config' is not a JSON object: give it the source's options, {} for none")
    return config


def _with_day(batch: pa.RecordBatch, day: Day, target: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns and types of ``target``, ``day`` among them."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["day"] = pa.repeat(pa.scalar(day.date, pa.date32()), batch.num_rows)
    if missing := [name for name in target.names if name not in columns]:
        raise ConfigError(f"the source has no column {', '.join(missing)}: drop or correct .schema()")
    return pa.record_batch([columns[field.name].cast(field.type) for field in target], schema=target)
