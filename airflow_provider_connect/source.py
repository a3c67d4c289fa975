"""What a source is: the contract that every file in ``sources/`` fulfils.

A source is a pydantic model: its options, pure data that a DAG file imports. :meth:`Source.open` makes a
:class:`Poller` of them, which does the work. What only some can do is in :mod:`.capabilities`. The life of one day::

    Airflow task   check(connection)     options against the connection, before anything is started
    driver         schema()              once a job; travels with the tasks
    driver         plan(days)            once for a day, or for days that one request serves
    executor       poll(part, tally)     once an attempt of a partition: yield its rows

Nothing here imports airflow or pyspark, and nothing at module level that a DAG file should not pay for.

**Rows.** ``record_key STRING NOT NULL`` is a row's key: 32 hex digits, the same whenever the row is polled. The stage
adds the keys of a day up to its digest, and sinks that need a key take it. A source whose rows have none has no digest.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally

C = TypeVar("C")


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


class Source(Options, ABC):
    """Base of every source; its fields are the options every source has.

    Subclasses set ``name`` to their file's name, and ``connection_types`` to the types that ``conn_id`` may be of.
    """

    name: ClassVar[str]
    connection_types: ClassVar[tuple[str, ...]]
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

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Refuse the ``open(connection)`` of earlier versions.

        :raises ConfigError: with what to write.
        """
        try:
            inspect.signature(cls.open).bind(None, None, None)
        except TypeError:
            raise ConfigError(
                f"{cls.__module__}.{cls.__qualname__} is written for an earlier version: write open(self, connection, "
                "context), where context is an airflow_provider_connect.source.PollContext. The poller gets from it "
                "what was set on its attributes spark, polls_at_once, looks_ahead and is_closed_before_polls"
            ) from None

    @property
    def kind(self) -> SourceKind:
        """Whether rows of the configured stream are those of a day, a snapshot of the whole, or an increment.

        Increments are polled one day after the other, by a poller that :class:`.Follows`.
        """
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

    def capability(self, kind: type[C]) -> C | None:
        """Return this source as one that has a capability; None if the configured stream has it not."""
        return self if isinstance(self, kind) else None

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return the connection's parts that decide which rows are read, by name. They must not contain secrets."""
        return {name: connection.option(name) for name in self.connection_fields}

    def check(self, connection: Connection) -> list[str]:
        """Return all that is wrong with these options and this connection together. No network.

        Runs in the Airflow task before anything is submitted. Messages name the field and what to do.
        """
        return []

    def dataset(self, connection: Connection) -> Dataset:
        """Return the stream's name in lineage; by default after connector and connection. No network, no secret."""
        return Dataset(f"{self.name}://{connection.conn_id}", self.stream_key)

    @abstractmethod
    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the stream's poller. Driver and executor; no network yet. The poller's module is imported here."""


class Poller(Closable, ABC):
    """Polls one stream.

    The driver opens one for all days of a job and calls it from several threads at once. Each executor task opens its
    own.
    """

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of every batch that :meth:`poll` yields. Driver, once a job; it travels with the tasks.

        May ask the source. Metadata of a field tells sinks more than its type: ``comment`` describes it, ``few_values``
        says that its values repeat, and ``json`` that its strings are JSON documents: ``checked`` if every one was
        parsed already, else ``unchecked``. The schema's own may have ``record_name``, a full name such as
        ``connect.x.Post``, where a sink registers schemas, and ``key``: a JSON list of pairs of column and class of its
        values that ``record_key`` is made of, [] without such columns.
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
        requests and bytes to ``tally`` itself: each request as soon as it is sent, where the vendor limits them. One
        that could not be sent does not count: ``retry_budget_seconds`` bounds those.

        :raises RetriableError: cut, refused for now, or unreachable: what was yielded is thrown away. A
            :class:`.DeadlineError` if a request took longer than it may.
        :raises ConfigError: credentials, rights, options: nobody tries again.
        :raises DataError: the data is bad, and ``errors_tolerance`` does not allow it.
        """
