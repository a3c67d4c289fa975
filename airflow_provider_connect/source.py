"""What a source is: the contract that every file in ``sources/`` fulfils.

A source is a pydantic model: its options, pure data that a DAG file imports. :meth:`Source.open` makes a
:class:`Poller` of them, which does the work. The life of one day::

    Airflow task   check(connection)     options against the connection, before anything is started
    driver         schema()              once a job; travels with the tasks
    driver         follow(day, …)        before the plan of an increment: where it begins and ends
    driver         plan(days)            once for a day, or for days that one request serves
    executor       poll(part, tally)     once an attempt of a partition: yield its rows
    driver         count(day, tally)     the vendor's own count, for the operator's ``reconcile``, or before plan()

Nothing here imports airflow or pyspark, and nothing at module level that a DAG file should not pay for.

**Rows.** ``record_key STRING NOT NULL`` is a row's key: 32 hex digits, the same whenever the row is polled. The stage
adds the keys of a day up to its digest, and sinks that need a key take it. A source whose rows have none has no digest.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from pydantic import Field

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.errors import ConnectError, RetriableError
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.quota.limits import Quota
    from airflow_provider_connect.polling.tally import Tally


class PlanGoneError(RetriableError):
    """What a plan was made on is gone, such as a snapshot that its partitions share: only a new plan helps."""


Sizes = Callable[[], Sequence[int]]
"""Asks for the sizes of the days nearest to the next one, in bytes after decoding, as far as they are known."""
C = TypeVar("C")


class Together(NamedTuple):
    """How many days the next plan takes.

    :param why: in words, for the log; "" if there is nothing to say.
    """

    days: int
    why: str = ""


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
class VendorCount:
    """How many rows of a day the vendor itself counts.

    :param rows: without the duplicates that the vendor drops.
    :param is_least: whether the day may rightly have more: the vendor does not count all of what it sends.
    :param is_most: whether the day may rightly have fewer: the vendor does not send all of what it counts. By how many,
        only the operator's ``reconcile_percent`` can say, so such a count is compared where ``reconcile`` asks for it
        alone, and more rows than it counts are always too many.
    """

    rows: int
    is_least: bool = False
    is_most: bool = False


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

    @property
    def kind(self) -> SourceKind:
        """What the rows are, as the stream is configured: those of a day, a snapshot of the whole, or an increment.

        Increments are polled one day after the other: each begins where the last one ended (:meth:`Poller.follow`).
        """
        return "day"

    @property
    def reloads(self) -> bool:
        """Whether an earlier day can be asked for again. Not if its rows are what there is when somebody asks."""
        return self.kind == "day"

    @property
    def reloads_when_lost(self) -> bool:
        """True if an increment reads all rows again when the stream cannot be followed any more."""
        return False

    def capability(self, kind: type[C]) -> C | None:
        """Return the configured stream as a capability; None if it has none of this kind."""
        return self if isinstance(self, kind) else None

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
        """Say what is wrong with these options and this connection together; [] when nothing is.

        Runs in the Airflow task before anything is submitted. No network. Messages name the field and what to do.
        """
        return []

    def quota(self, connection: Connection) -> Quota | None:
        """Return the limit that all who read this project share; None if the vendor has none. No network.

        The task reserves its requests before Spark starts, and waits without a worker's slot if there is no room.
        """
        return None

    @property
    def counts_late(self) -> bool:
        """Whether its polls count late rows (:func:`.polling.late.count_late`), because rows say when they arrived."""
        return False

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return how many requests days cost at least, of those that the vendor counts.

        Days of one plan cost what the first of them costs alone: that is why they are in one plan.
        """
        return len(days)

    def requests_apart(self, days: Sequence[Day], alone: Collection[dt.date]) -> int:
        """Return how many requests days cost at least, if some of them are asked for alone."""
        together = [day for day in days if day.date not in alone]
        costs = [self.requests_for([day]) for day in days if day.date in alone]
        return sum(costs) + (self.requests_for(together) if together else 0)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many requests for days may be under way at once."""
        return min(self.parallel_days, len(days), max(1, self.requests_for(days)))

    @property
    def parts_at_once(self) -> int:
        """How many partitions of one day may be polled at once, where a day ran into its deadline and is split.

        1, the default, says that days are not split: such a day is asked for again as it was. Otherwise the poller has
        :meth:`Poller.split`, and the source is one whose days can be counted.
        """
        return 1

    def count_problems(self) -> list[str]:
        """Say why the vendor's own count cannot be compared with the rows; [] if it can.

        Then the poller has :meth:`Poller.count`.
        """
        return [f"source {self.name!r} knows no count of the vendor's own"]

    @property
    def counts_first(self) -> bool:
        """Whether the plan of a day needs its count, so that each day is counted, and compared, in any case."""
        return False

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return how many requests of :meth:`count_quota` it takes at most to count days, each once."""
        return len(days)

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the limit on counts, if it is another than :meth:`quota`; None if they have none. No network.

        Only of a source that has a quota, too.
        """
        return None

    def column_names(self) -> Sequence[str] | None:
        """Return the names of the rows' columns if the options alone tell them; None if the source must be asked."""
        return None

    def dataset(self, connection: Connection) -> Dataset:
        """Return what lineage calls the stream; by default after connector and connection. No network, no secret."""
        return Dataset(f"{self.name}://{connection.conn_id}", self.stream_key)

    @abstractmethod
    def open(self, connection: Connection) -> Poller:
        """Return what polls the stream. Driver and executor; no network yet. Its module is imported here."""


class Poller(Closable, ABC):
    """What polls one stream.

    The driver opens one for all days of a job and calls it from several threads at once. Each executor task opens its
    own.
    """

    days_per_plan: int = 1
    """How many consecutive days one plan may take together, because one request serves them."""
    partitions_at_once: int | None = None
    """How many partitions of a plan are polled at the same time; None for as many as there is room for."""
    resumes: bool = False
    """Whether another driver may go on with a plan of a day whose driver has died, by :meth:`resume`.

    The partitions that were whole are then not polled again. So each must be right by itself, whenever it is polled,
    and none may need what only the driver that planned it had: a session, or a snapshot.
    """
    begins_anew: str = ""
    """Why it may not, and what would do so, for the log of the try that begins anew; "" if there is nothing to say."""
    is_closed_before_polls: bool = False
    """Set by who plans and closes the poller before the partitions are polled: nothing can be kept open for them."""

    polls_at_once: int | None = None
    """How many polls of the job may run at the same time, each in a process of its own; None if nobody knows.

    Set on the executor, before the first poll: limits for a second, or at once, are shared by so many.
    """

    looks_ahead: bool = True
    """Whether a poll may ask for what comes next while its rows are taken. Unset by who wants the first rows alone."""

    is_read_by_spark: bool = False
    """Whether Spark itself reads the rows: then :meth:`frame` and :meth:`rows_of` do what else :meth:`poll` does."""
    spark: Callable[[], Any] | None = None
    """Returns Spark's SQL session. Set on the driver of a job alone, before the schema is asked for."""

    def days_together(self, wanted: Sequence[Day], sizes: Sizes) -> Together:
        """Return how many of them the next plan should take; by default as many as it may. Driver, before each plan.

        :param wanted: all days of the job.
        """
        return Together(self.days_per_plan)

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of every batch that :meth:`poll` yields. Driver, once a job; it travels with the tasks.

        May ask the source. A field's metadata tells sinks more than its type: ``comment`` describes it, ``few_values``
        says that its values repeat, and ``json`` that its strings are JSON documents: ``checked`` if every one was
        parsed already, else ``unchecked``. The schema's own metadata may have ``record_name``, a full name such as
        ``connect.x.Post`` for the row's schema, where a sink registers one, and ``key``: a JSON list of pairs of column
        and class of its values that ``record_key`` is made of, [] without such columns.
        """

    @abstractmethod
    def plan(self, days: Sequence[Day]) -> list[InputPartition]:
        """Cut days into partitions: deterministic, disjoint, together the whole of the days. Driver.

        No partition for a single day means that it is empty. Of several days each needs one, also an empty day: one
        that is forgotten fails them all. A partition whose poll fails only fails the days that it names.

        :param days: one day, or up to ``days_per_plan`` that follow each other.
        :raises ConfigError: if a day cannot be read as it is configured.
        :raises RetriableError: if a day is not over yet but soon will be.
        """

    def follow(self, day: Day, after: str | None, to: str | None) -> str:
        """Fix which rows the next plans of a day read, those of an increment; return where they end. Driver.

        A plan without it, as for ``spark.read``, reads from the beginning of the stream.

        :param after: the position behind which they begin; None at the beginning of the stream.
        :param to: the position up to which an earlier load of the day has read, which this one repeats; None to read
            up to where the source ends now.
        :return: ``to``, or the last position that belongs to the increment; ``after`` if nothing came behind it, and
            some position before all others if there never was a row. At most :data:`.stage.spans.MOST_CHARACTERS`
            characters, none of them a secret, since the ledger keeps it.
        :raises ConfigError: the position is none of this source's.
        :raises RowsLostError: rows to come would be skipped, and the source does not set ``reloads_when_lost``.
        """
        raise NotImplementedError

    def resume(self, day: Day, parts: Sequence[InputPartition]) -> Sequence[InputPartition]:
        """Plan a day once more as an earlier try has planned it. Driver, in place of plan, where it ``resumes``.

        Unless the partitions are the same to the letter, all of them are polled. By default :meth:`plan` is asked.

        :param parts: the earlier try's, as the stage has them. Others may write into a shared stage: what is taken from
            them is checked first.
        :raises ConnectError: as :meth:`plan`.
        """
        return self.plan([day])

    def split(self, day: Day, more_than: int) -> None:
        """Plan a day in more partitions than so many, if it can be: in these a request ran into its deadline. Driver.

        The day is counted after this and before its plan. What cannot be split further is planned as it was.

        :param more_than: 0 plans the day again as if nothing had happened.
        """
        raise NotImplementedError

    def accept(self, day: Day, counts: Mapping[str, int]) -> None:
        """Refuse a day that was polled in several partitions, if they are good each and not together. Driver.

        All of them are polled by now: what :meth:`plan` left open for them may be closed.

        :param counts: of all of them, by name.
        :raises DataError: for example, too many records were set aside.
        """

    def count(self, day: Day, tally: Tally) -> VendorCount:
        """Ask the vendor how many rows of a day it counts. Driver; one day after the other.

        Where the source says ``counts_first``, the next :meth:`plan` of the day goes by this answer.

        :param tally: counts requests, each as soon as it is sent.
        :raises ConfigError: the credentials, the role or the vendor's plan do not allow it.
        :raises RetriableError: the vendor is away, in trouble or busy.
        """
        raise NotImplementedError

    def frame(self, part: InputPartition) -> Any:
        """Return a partition as a DataFrame of one partition of Spark's; nothing is read yet. Driver.

        :raises ConnectError: it cannot be read.
        """
        raise NotImplementedError

    def rows_of(
        self, part: InputPartition, batches: Iterator[pa.RecordBatch], tally: Tally
    ) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield what :meth:`poll` would, from the batches that Spark has read of :meth:`frame`. Executor.

        The connection has neither login, password nor extra here.

        :raises DataError: the data is bad.
        """
        raise NotImplementedError

    def error_of(self, error: Exception) -> ConnectError:
        """Return our error for one that Spark raised while it read, without a text that may hold a value. Driver."""
        raise NotImplementedError

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
