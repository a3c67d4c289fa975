"""The frozen context of a job: its two ends, opened, and what its steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.registry import stages_marks
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.sink import Publisher, Sink, StreamKey
from airflow_provider_connect.source import Poller, Source
from airflow_provider_connect.spark.lanes import PollParts
from airflow_provider_connect.spark.progress import Progress
from airflow_provider_connect.stage.erasing import EraseList
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import polled_root

PutShares = Callable[[Any, list[tuple[StagedFile, ...]]], list[Any]]


@dataclass(frozen=True)
class Intake:
    """The end where rows come from.

    :param read: schema of the source's rows.
    :param shaping: changes rows between poll and stage.
    """

    source: Source
    connection: Connection
    poller: Poller
    read: pa.Schema
    shaping: Shaping = field(default_factory=Shaping)

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of polled rows as they are staged."""
        return self.shaping.chain.schema(self.read)


@dataclass(frozen=True)
class Outlet:
    """The end where rows go.

    :param schema: schema of published rows.
    :param root: root of the stage.
    :param keeps_stage: whether published files stay in place, because the stage belongs to the sink.
    """

    sink: Sink
    publisher: Publisher
    key: StreamKey
    schema: pa.Schema
    root: Folder
    keeps_stage: bool


@dataclass(frozen=True)
class Context:
    """A job, its ends, and whether a transform stands between them."""

    job: JobConfig
    intake: Intake
    outlet: Outlet
    progress: Progress
    is_transformed: bool = False

    @cached_property
    def polled_root(self) -> Folder:
        """Stage of polled days: the sink's own, unless their rows are transformed."""
        return polled_root(self.outlet.root) if self.is_transformed else self.outlet.root

    @property
    def has_marks(self) -> bool:
        """Whether published rows have the columns of soft deletes."""
        return stages_marks(self.outlet.sink, self.intake.source.kind)

    def staging(self, erased: EraseList) -> dict[str, Any]:
        """Return how polled rows are staged: of a transform's input in one table, without marks."""
        if self.is_transformed:
            return {"erased": erased.limited_to(self.intake.schema.names)}  # the result has all of its columns
        return {"erased": erased, "tables": self.outlet.sink.tables, "soft_deletes": self.has_marks}


@dataclass(frozen=True)
class Executors:
    """What runs on the executors, and how much of it at a time.

    :param poll_parts: runs :func:`.poll.run` over tasks.
    :param put_shares: runs the sink's ``put`` over shares of a day; None if the sink has no ``put``.
    :param parts_at_once: how many partitions of a plan may be polled at the same time.
    :param plans_at_once: how many plans are under way at the same time; None if unknown.
    """

    poll_parts: PollParts
    put_shares: PutShares | None
    parts_at_once: int
    plans_at_once: int | None
