"""The immutable context of a job: opened source and sink, stage, and digests that identify staged answers."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from airflow_provider_connect import __version__
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import JobConfig
from airflow_provider_connect.registry import stages_marks
from airflow_provider_connect.shapes.chain import Chain, Shaping
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
    """The opened source of a job.

    :param shaping: changes rows between poll and stage: the task's shapes, and those of the sink.
    :param declared_chain: the task's shapes alone. None if the sink has none.
    """

    source: Source
    connection: Connection
    poller: Poller
    source_schema: pa.Schema
    shaping: Shaping = field(default_factory=Shaping)
    declared_chain: Chain | None = None

    @property
    def declared_shaping(self) -> Shaping:
        """The task's own shapes, by which an erase list names its column."""
        chain = self.declared_chain
        return self.shaping if chain is None else replace(self.shaping, chain=chain)

    @cached_property
    def staged_schema(self) -> pa.Schema:
        """Schema of the staged rows, after all shapes."""
        return self.shaping.chain.result_schema(self.source_schema)


@dataclass(frozen=True)
class Outlet:
    """The opened sink of a job.

    :param keeps_stage: the stage belongs to the sink, so published files stay in place.
    """

    sink: Sink
    publisher: Publisher
    key: StreamKey
    published_schema: pa.Schema
    root: Folder
    keeps_stage: bool


@dataclass(frozen=True)
class JobContext:
    """A job with its opened source and sink."""

    job: JobConfig
    intake: Intake
    outlet: Outlet
    progress: ProgressLog
    is_transformed: bool = False

    @cached_property
    def polled_root(self) -> Folder:
        """Stage of polled days: the sink's stage, or a separate folder if a transform follows."""
        return polled_root(self.outlet.root) if self.is_transformed else self.outlet.root

    @property
    def has_soft_deletes(self) -> bool:
        """True if published rows have the columns of soft deletes."""
        return stages_marks(self.outlet.sink, self.intake.source.kind)

    def staging_options(self, erase_list: EraseList) -> dict[str, Any]:
        """Return options for staging polled rows. Before a transform, there are no tables and soft deletes."""
        if self.is_transformed:
            return {
                "erased": erase_list.for_columns(self.intake.staged_schema.names)
            }  # the result has all of its columns
        return {"erased": erase_list, "tables": self.outlet.sink.tables, "soft_deletes": self.has_soft_deletes}


@dataclass(frozen=True)
class Executors:
    """Functions that run on the executors, and their concurrency.

    :param poll_partitions: runs :func:`.poll.run_poll_tasks` for tasks.
    :param put_shares: calls the sink's ``put`` with groups of a day's files, or None if the sink has no ``put``.
    """

    poll_partitions: PollPartitions
    put_shares: PutShares | None
    concurrent_parts: int
    concurrent_plans: int | None


def fingerprint_of(context: JobContext) -> str:
    """Return a digest of everything that decides a poll's rows and their target: options, shapes, address, columns.

    Takes 50 ms for each mask's key.
    """
    job, intake, sink = context.job, context.intake, context.outlet.sink
    address = intake.connection.model_dump(include={"conn_id", "host", "port", "path"})
    address |= {name: intake.connection.extra.get(name) for name in intake.source.connection_fields}
    # Sinks with different ledgers may share one stage.
    target = [job.sink_name, sink.target, context.has_soft_deletes]
    options = job.model_dump(include={"source_name", "source", "shape", "rejects_keep"})
    keys = intake.shaping.digests(sink.target)  # an id has another hash under another key
    parts = [__version__, options, address, target, intake.staged_schema.serialize().to_pybytes().hex(), keys]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_digest(context: JobContext, manifest: Manifest) -> str | None:
    """Return a digest of a day's rows and of everything that decides their publish, or None if the rows have no digest.

    Covers the sink's options and this package's version.
    """
    contents = manifest.polled.contents
    if contents is None:
        return None
    text = json.dumps([contents, manifest.fingerprint, context.job.sink], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def open_stage(sink_stage: str | None, job: JobConfig) -> Folder:
    """Return the stage: the sink's folder, else the folder of the option ``staging``.

    :raises ConfigError: the option is missing, or names a folder in a Delta table.
    """
    if sink_stage is not None:
        return Folder(sink_stage)
    if job.staging is None:
        raise ConfigError(f"sink {job.sink_name!r} needs a URL for the stage. Set staging= on the operator")
    root = Folder(job.staging)
    if (table := _surrounding_table(root.url)) is not None:
        raise ConfigError(
            f"staging={job.staging!r} lies in the Delta table {table}. A sweep of the stage would delete the "
            "table's files, and a vacuum would delete the stage. Choose another URL"
        )
    return root


def _surrounding_table(url: str) -> str | None:
    """Return the URL of the Delta table, or the root of several, that contains a folder, or None."""
    scheme, separator, path = url.rpartition("://")
    path_parts = [path.split("/"), *([] if scheme else [os.path.realpath(path).split("/")])]  # a link may lead into one
    ancestors = ["/".join(parts[:depth]) for parts in path_parts for depth in range(len(parts), 0, -1)]
    for ancestor in dict.fromkeys(filter(None, ancestors)):
        folder = Folder(f"{scheme}{separator}{ancestor}")
        try:
            if folder.exists("_delta_log") or folder.exists(f"{HEAD_FOLDER}/_delta_log"):
                return folder.url
        except (ConfigError, RetriableError):
            # This user may have no right to look above the folder; stores report that in many ways.
            if folder.url == url:
                raise
    return None
