"""The contract of sources, which every file in ``sources/`` fulfils.

The life of one day::

    Airflow task   check(connection)     options against the connection, before any process starts
    driver         schema()              once a job; travels with the tasks
    driver         plan(days)            once for a day, or for days that one request serves
    executor       poll(part, tally)     once for each attempt of a partition: yields its rows
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import Field

from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import Connector, Opened
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally


class PlanGoneError(RetriableError):
    """The basis of a plan is gone, such as a database snapshot. Only a new plan helps."""


class InputPartition(Wire):
    """Part of a day, or of several days that one request serves, polled by one Spark task.

    :param days: the days of its rows, ascending.
    :param index: 0-based, unique within a plan, the same in every plan of the same days.
    :param params: plain JSON that finds the partition again, without secrets.
    """

    days: tuple[Day, ...] = Field(min_length=1)
    index: int = 0
    params: dict[str, Any] = Field(default_factory=dict)


class ListedStream(NamedTuple):
    """One stream of a source that has many.

    :param title: name for messages.
    :param names: values of ``schema`` and ``table`` in the sink's target.
    :param choices: names under which the stream may have been loaded. A new stream gets the first.
    """

    title: str
    names: Mapping[str, str]
    choices: tuple[str, ...]


class StreamListing(NamedTuple):
    """The streams of a source at a moment.

    :param problems: by title, why a stream that the options name cannot be loaded.
    :param default_schema: schema of the tables that their name alone names. "" if there are none.
    """

    streams: Sequence[ListedStream]
    problems: Mapping[str, str]
    default_schema: str = ""


@dataclass(frozen=True)
class PollContext:
    """The circumstances under which a source is opened.

    :param polls_at_once: most concurrent polls of the job, each in its own process. None if unknown.
    :param looks_ahead: False if the caller wants only the first rows.
    :param is_closed_before_polls: True if this poller plans, and is closed before the polls.
    :param spark: returns the Spark SQL session. None outside a job's driver.
    """

    polls_at_once: int | None = None
    looks_ahead: bool = True
    is_closed_before_polls: bool = False
    spark: Callable[[], Any] | None = None


ALONE = PollContext()


class Source(Connector):
    """Base of every source, with the options of all sources. ``name`` is the name of its file."""

    name: ClassVar[str]
    connection_types: ClassVar[tuple[str, ...]]
    """Airflow connection types that ``conn_id`` may have."""
    connection_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the connection's extra that decide which rows are read, without secrets."""
    row_options: ClassVar[Mapping[str, RowRole]] = {}
    """Options in the :class:`.StreamDefinition`. A dotted name is a field of an option: ``records.key``."""

    conn_id: str = Field(description="Airflow connection with the address and the credentials of the source.")
    retry_budget_seconds: float = Field(
        default=600.0,
        ge=0,
        description="How long one task goes on polling a partition again after retriable errors before it hands "
        "them to Airflow's own retry.",
    )
    retry_budget_requests: int = Field(
        default=5,
        ge=1,
        description="How many requests one task may spend on polls of a partition that end in retriable errors before "
        "it hands them to Airflow's own retry, and begins no further day: vendors count requests, also those that "
        "fail.",
    )
    parallel_days: int = Field(
        default=4,
        ge=1,
        description="How many days of one window may be polled at the same time. Where one request serves several "
        "days, they count as one.",
    )

    @property
    def kind(self) -> SourceKind:
        """Kind of the rows: of a day, a snapshot of everything, or an increment (:class:`.Follows`)."""
        return "day"

    @property
    def reloads(self) -> bool:
        """True if an earlier day can be polled again."""
        return self.kind == "day"

    def concurrent_polls(self, days: int) -> int:
        """Return how many partitions of a window of ``days`` days the options allow to be polled concurrently."""
        return 1 if self.kind == "increment" else min(days, self.parallel_days)

    @property
    def repeats_rows(self) -> bool:
        """True if later runs read rows again, so that only a sink that merges by key keeps each row once."""
        return False

    @property
    def order_columns(self) -> tuple[str, ...]:
        """Columns whose higher values belong to the newer of two rows, the first one first. () if unknown."""
        return ()

    @property
    @abstractmethod
    def stream_key(self) -> str:
        """Name of the stream in ledger and offset, unique within this connector."""

    @property
    def timezone(self) -> str:
        """IANA zone of the source's calendar days."""
        return "UTC"

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return the parts of the connection that decide which rows are read, by name, without secrets."""
        return {name: connection.option(name) for name in self.connection_fields}

    def check(self, connection: Connection) -> list[str]:
        """Return problems of the options with this connection, with remedies. Without network."""
        return []

    def dataset(self, connection: Connection) -> Dataset:
        """Return the stream's name in lineage, by default from connector and connection. No network, no secret."""
        return Dataset(f"{self.name}://{connection.conn_id}", self.stream_key)

    @abstractmethod
    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the stream's poller, without network. Runs on driver and executor."""


class Poller(Opened):
    """Poller of one stream.

    The driver has one for all days of a job, called from several threads. Each executor task has its own.
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of every batch that :meth:`poll` yields. Runs on the driver, once a job.

        May query the source. Metadata of fields and schema: docs/connectors.md, *Rows*.
        """

    @abstractmethod
    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Cut days into partitions that are deterministic, disjoint and complete. Runs on the driver.

        A single day without a partition is empty. Of several days, even an empty one needs a partition. A failed
        partition fails only its own days.

        :raises ConfigError: these options cannot read a day.
        :raises RetriableError: a day is not complete yet.
        """

    @abstractmethod
    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition, each batch with its day. Runs on the executor.

        After any error it starts again from the beginning. It may end normally only if it saw the end of the data.
        Counts and rejects go to ``tally.for_day(day)``, bytes and requests to ``tally``.

        :raises RetriableError: the answer was cut, or the source unavailable. A :class:`.DeadlineError` if a request
            exceeded its deadline.
        :raises ConfigError: credentials, permissions or options are wrong.
        :raises DataError: the data is bad, and ``errors_tolerance`` does not allow it.
        """
