"""What a source is: the contract that every file in ``sources/`` fulfils.

A source is a pydantic model (its options) with three methods that do the work. The life of one day::

    Airflow task   check(connection)           options against the connection, before anything is started
    driver         row_schema()                 once a job
    driver         plan(day, connection)       once a day: cut the day into input partitions
    executor       poll(part, connection, …)   once an attempt of a partition: yield its rows

Nothing here imports airflow or pyspark, and nothing at module level that a DAG file should not pay for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from airflow_provider_connect.config import Options
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.window import Day, SourceKind
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.polling.tally import Tally


class InputPartition(Wire):
    """One piece of a day that one Spark task polls.

    :param index: 0-based, unique within the day, the same for every plan of the day.
    :param params: what the source needs to find the piece again; plain JSON, no secret.
    """

    day: Day
    index: int = 0
    params: dict[str, Any] = Field(default_factory=dict)


class Source(Options, ABC):
    """Base of every source; its fields are the options every source has.

    Subclasses set ``name`` to their file's name, ``kind``, and ``connection_type``.
    """

    name: ClassVar[str]
    kind: ClassVar[SourceKind] = "day"
    connection_type: ClassVar[str]
    connection_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the connection's extra that decide which rows are read; none of them a secret."""

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
        default=4, ge=1, description="How many days of one window may be polled at the same time."
    )

    @property
    @abstractmethod
    def stream_key(self) -> str:
        """Name of what is read, unique among all streams of this connector: part of ledger and offset."""

    @property
    def timezone(self) -> str:
        """IANA zone whose calendar days this source counts in."""
        return "UTC"

    def check(self, connection: Connection) -> list[str]:
        """Say what is wrong with these options and this connection together; [] when nothing is.

        Runs in the Airflow task before anything is submitted, and in the connection form's Test button.
        No network. Messages name the field and what to do.
        """
        return []

    @abstractmethod
    def row_schema(self) -> pa.Schema:
        """Return the schema of every batch that :meth:`poll` yields. Driver, once a job.

        A field's metadata tells sinks more than its type: ``comment`` describes it, ``few_values`` says that its values
        repeat, and ``json`` that its strings are JSON documents: ``checked`` if every one was parsed already, else
        ``unchecked``.
        """

    @abstractmethod
    def plan(self, day: Day, connection: Connection) -> list[InputPartition]:
        """Cut a day into partitions: deterministic, disjoint, together the whole day. Driver, once a day.

        :raises ConfigError: if the day cannot be read as it is configured.
        :raises RetriableError: if the day is not over yet but soon will be.
        """

    @abstractmethod
    def poll(self, part: InputPartition, connection: Connection, tally: Tally) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Executor, again from the start after any error.

        Ends normally only when the end of the data was really seen. Counts and rejects go to ``tally``,
        which also counts each request as soon as it is sent, where the vendor limits them. One that could not be sent
        does not count: ``retry_budget_seconds`` bounds those.

        :raises RetriableError: cut, refused for now, or unreachable: what was yielded is thrown away.
        :raises ConfigError: credentials, rights, options: nobody tries again.
        :raises DataError: the data is bad, and ``errors_tolerance`` does not allow it.
        """
