"""What a source is: the contract that every file in ``sources/`` fulfils.

A source is a pydantic model: its options, pure data that a DAG file imports. :meth:`Source.open` makes a
:class:`Poller` of them, which does the work. What only some can do is in :mod:`.capabilities`. The life of one day::

    Airflow task   check(connection)     options against the connection, before anything is started
    driver         schema()              once a job; travels with the tasks
    driver         plan(days)            once for a day, or for days that one request serves
    executor       poll(part, tally)     once an attempt of a partition: yield its rows
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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
    """What a plan was made on is gone, such as a snapshot that its partitions share: only a new plan helps."""


class InputPartition(Wire):
    """One piece of a day that one Spark task polls, or of several days that one request serves.

    :param days: whose rows it yields, in ascending order; mostly one.
    :param index: 0-based, unique within a plan, the same for every plan of the same days.
    :param params: what the source needs to find the piece again; plain JSON, no secret.
    """

    days: tuple[Day, ...] = Field(min_length=1)
    index: int = 0
    params: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True)
class PollContext:
    """Who opens a source, and how its polls run. The defaults fit a caller that plans, polls and closes by itself.

    :param polls_at_once: polls of the job that may run at the same time, each in a process of its own: limits for a
        second, or on concurrent requests, are shared by so many. None if nobody knows.
    :param looks_ahead: False if the caller wants the first rows alone: nothing is asked for while they are taken.
    :param is_closed_before_polls: True if the poller that plans is closed before the partitions are polled, so that
        nothing can be kept open for them.
    :param spark: returns Spark's SQL session; None outside of a job's driver.
    """

    polls_at_once: int | None = None
    looks_ahead: bool = True
    is_closed_before_polls: bool = False
    spark: Callable[[], Any] | None = None


ALONE = PollContext()


class Source(Connector):
    """Base of every source; its fields are the options every source has. ``name`` is the name of its file."""

    name: ClassVar[str]
    connection_types: ClassVar[tuple[str, ...]]
    """Types of Airflow connection that ``conn_id`` may be of."""
    connection_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the connection's extra that decide which rows are read; none of them a secret."""
    row_options: ClassVar[Mapping[str, RowRole]] = {}
    """Options of the :class:`.StreamDefinition`; a dot leads into an option's fields, as in ``records.key``."""

    conn_id: str = Field(description="Airflow connection that holds where the source is and who may read it.")
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
        """What rows of the stream are: a day's, a snapshot of the whole, or an increment (:class:`.Follows`)."""
        return "day"

    @property
    def reloads(self) -> bool:
        """Whether an earlier day can be asked for again. Not if its rows are what there is when somebody asks."""
        return self.kind == "day"

    @property
    @abstractmethod
    def stream_key(self) -> str:
        """Name of what is read, unique among all streams of this connector: part of ledger and offset."""

    @property
    def timezone(self) -> str:
        """IANA zone whose calendar days this source counts in."""
        return "UTC"

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return the connection's parts that decide which rows are read, by name. They must not contain secrets."""
        return {name: connection.option(name) for name in self.connection_fields}

    def check(self, connection: Connection) -> list[str]:
        """Return all that is wrong with options and connection together, by field, and what to do. No network."""
        return []

    def dataset(self, connection: Connection) -> Dataset:
        """Return the stream's name in lineage; by default after connector and connection. No network, no secret."""
        return Dataset(f"{self.name}://{connection.conn_id}", self.stream_key)

    @abstractmethod
    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the stream's poller. Driver and executor; no network yet. The poller's module is imported here."""


class Poller(Opened):
    """What polls one stream: one for all days of a job, called from several threads, and one an executor task."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of every batch that :meth:`poll` yields. Driver, once a job; it travels with the tasks.

        May ask the source. Metadata of fields and schema tell sinks more than types: docs/connectors.md, *Rows*.
        """

    @abstractmethod
    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Cut days into partitions: deterministic, disjoint, together the whole of the days. Driver.

        No partition for a single day means that it is empty. Of several days each needs one, also an empty day: one
        that is forgotten fails them all. A partition whose poll fails only fails the days that it names.

        :param days: one day, or as many days that follow each other as :class:`.SeveralDaysARequest` allows.
        :raises ConfigError: if a day cannot be read as it is configured.
        :raises RetriableError: if a day is not over yet but soon will be.
        """

    @abstractmethod
    def poll(self, part: InputPartition, tally: Tally) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a partition, each batch with its day. Executor, again from the start after any error.

        Ends normally only when the end of the data was really seen. Counts and rejects go to ``tally.for_day(day)``,
        bytes and requests to ``tally`` itself: each as soon as it is sent; one that could not be sent does not count.

        :raises RetriableError: cut, refused for now, or unreachable: what was yielded is thrown away. A
            :class:`.DeadlineError` if a request took longer than it may.
        :raises ConfigError: credentials, rights, options: nobody tries again.
        :raises DataError: the data is bad, and ``errors_tolerance`` does not allow it.
        """
