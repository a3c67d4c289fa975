"""The frozen context of a job: its two ends, opened, where its stage lies, and what its steps share.

By its digests a try knows what an earlier one has left, and an answer the published one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_provider_connect import __version__
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.registry import stages_marks
from airflow_provider_connect.shapes.chain import Shaping
from airflow_provider_connect.sink import Publisher, Sink, StreamKey
from airflow_provider_connect.source import Poller, Source
from airflow_provider_connect.spark.progress import ProgressLog
from airflow_provider_connect.stage.erase_list import EraseList
from airflow_provider_connect.stage.manifest import Manifest, StagedFile
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import HEAD_FOLDER
from airflow_provider_connect.stage.temporary import polled_root

PollPartitions = Callable[[list[str]], list[str]]
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
    source_schema: pa.Schema
    shaping: Shaping = field(default_factory=Shaping)

    @cached_property
    def staged_schema(self) -> pa.Schema:
        """Schema of polled rows as they are staged."""
        return self.shaping.chain.result_schema(self.source_schema)


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
    published_schema: pa.Schema
    root: Folder
    keeps_stage: bool


@dataclass(frozen=True)
class JobContext:
    """A job, its ends, and whether a transform stands between them."""

    job: JobConfig
    intake: Intake
    outlet: Outlet
    progress: ProgressLog
    is_transformed: bool = False

    @cached_property
    def polled_root(self) -> Folder:
        """Stage of polled days: the sink's own, unless their rows are transformed."""
        return polled_root(self.outlet.root) if self.is_transformed else self.outlet.root

    @property
    def has_soft_deletes(self) -> bool:
        """Whether published rows have the columns of soft deletes."""
        return stages_marks(self.outlet.sink, self.intake.source.kind)

    def staging_options(self, erase_list: EraseList) -> dict[str, Any]:
        """Return how polled rows are staged: of a transform's input in one table, without marks."""
        if self.is_transformed:
            return {
                "erased": erase_list.for_columns(self.intake.staged_schema.names)
            }  # the result has all of its columns
        return {"erased": erase_list, "tables": self.outlet.sink.tables, "soft_deletes": self.has_soft_deletes}


@dataclass(frozen=True)
class Executors:
    """What runs on the executors, and how much of it at a time.

    :param poll_parts: runs :func:`.poll.run_poll_tasks` over tasks.
    :param put_shares: runs the sink's ``put`` over shares of a day; None if the sink has no ``put``.
    :param parts_at_once: how many partitions of a plan may be polled at the same time.
    :param plans_at_once: how many plans are under way at the same time; None if unknown.
    """

    poll_partitions: PollPartitions
    put_shares: PutShares | None
    concurrent_parts: int
    concurrent_plans: int | None


def fingerprint_of(context: JobContext) -> str:
    """Digest of all that decides what a poll yields and where it goes: options, shapes, place, columns, target.

    Takes 50 ms for each key of a mask.
    """
    job, intake, sink = context.job, context.intake, context.outlet.sink
    place = intake.connection.model_dump(include={"conn_id", "host", "port", "path"})
    place |= {name: intake.connection.extra.get(name) for name in intake.source.connection_fields}
    # Sinks with different ledgers may share one stage.
    target = [job.sink_name, sink.target, context.has_soft_deletes]
    options = job.model_dump(include={"source_name", "source", "shape", "rejects_keep"})
    keys = intake.shaping.digests(sink.target)  # an id has another hash under another key
    parts = [__version__, options, place, target, intake.staged_schema.serialize().to_pybytes().hex(), keys]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_digest(context: JobContext, manifest: Manifest) -> str | None:
    """Return the digest of an answer and of all that decides what becomes of it; None if its rows have none.

    The sink's options count, unlike in the fingerprint: with others the same rows go into another table or format.
    So does this package's version: a later one may write them otherwise.
    """
    contents = manifest.polled.contents
    if contents is None:
        return None
    text = json.dumps([contents, manifest.fingerprint, context.job.sink], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def open_stage(sink_stage: str | None, job: JobConfig) -> Folder:
    """Return where days are staged.

    :param own: the sink's own stage, if it has one.
    :raises ConfigError: there is no staging option, or it names a place in a Delta table.
    """
    if sink_stage is not None:
        return Folder(sink_stage)
    if job.staging is None:
        raise ConfigError(f"sink {job.sink_name!r} needs a place for the stage: give the operator staging=")
    root = Folder(job.staging)
    if (table := _table_around(root.url)) is not None:
        raise ConfigError(
            f"staging={job.staging!r} lies in the Delta table {table}, whose files a sweep of the stage would delete, "
            "and whose vacuum would delete the stage: name another place"
        )
    return root


def _table_around(url: str) -> str | None:
    """Return the Delta table, or the root of several, that a folder is or lies in, at any depth; None if none."""
    scheme, separator, named = url.rpartition("://")
    places = [named.split("/"), *([] if scheme else [os.path.realpath(named).split("/")])]  # a link may lead into one
    above = ["/".join(place[:depth]) for place in places for depth in range(len(place), 0, -1)]
    for path in dict.fromkeys(filter(None, above)):
        folder = Folder(f"{scheme}{separator}{path}")
        try:
            if folder.exists("_delta_log") or folder.exists(f"{HEAD_FOLDER}/_delta_log"):
                return folder.url
        except (ConfigError, RetriableError):
            # This user may have no right to look above the folder; stores report that in many ways.
            if folder.url == url:
                raise
    return None
