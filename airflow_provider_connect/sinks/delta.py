"""Delta Lake table on a local path or an object store, one partition ``day`` (DATE) for each day; needs no server.

The stage lies under the table's root and staged files *are* the table's files: publishing a day is one commit to the
Delta log, which moves no byte. Readers (Spark, DuckDB, polars, Trino, BigQuery) see the old day or the new one, never a
part.

**Ledger.** The commit carries the ledger as Delta application transactions, which survive checkpoints and the
clean-up of the log. ``connect/<connector>/<stream>/<day>`` holds the generation; ``…/rows`` and ``…/clear`` its rows
and clear number; ``…/run/<run>`` and ``…/token/<token>`` the generation they published. ``connect/<connector>/<stream>/
attempt/<attempt>`` holds an attempt's generation, or 0 for swept. Details for people stand in the commit's metadata
(``DESCRIBE HISTORY``), under ``connect.…``.

**Connection.** None: rights on the path are those of the environment (AWS_*, GOOGLE_*, AZURE_*, a role of the
machine), which the Airflow task, the driver and the executors all need. A path with credentials in it is refused. S3
and GCS need no lock: commits are conditional writes, and an environment that switches those off is refused.

**Delivery.** Each day once, and whole. A publish reads, decides and commits from one snapshot of the table, and only
while the day's generation is the one its attempt saw before it polled. Delta refuses a commit when another since that
snapshot wrote the same application transaction, so the later one reads anew and decides again. A reload replaces the
day; older versions stay readable until they are vacuumed. On a local disk a published day survives a power cut.

**Sweep.** Unpublished files are deleted once their attempt has been silent for ``sweep_after`` by the storage's clock,
and once the log says that it is swept: no clock and no sleeping publisher can make a sweep delete what a commit names.

**Lost log.** A log that is gone or set back under its data is refused, by every task, and nothing is swept.

**Schema.** New columns are added, at the end and nullable, by the commit itself (``schema_contract="freeze"``
refuses them); columns the source no longer has stay and read as null. A changed type fails the day.

**Ownership.** One table belongs to one stream and says so in its property ``connect.stream``; any other is refused. A
table made by hand needs the property from its CREATE TABLE on (``'connect.stream' = 'mixpanel/<conn_id>.export'``):
setting it later with delta-rs would raise the table's protocol. Column mapping, constraints and deletion vectors are
refused.

**Limits.** If another engine writes the table's checkpoints in parts or under UUIDs, each transaction is asked for:
``days()`` is slow then, and may miss an empty day that stands apart, beyond an unpublished day at either end of the
table, once its commit has left the log (30 days by default); ``row()`` still knows it. RESTORE, DELETE or UPDATE by
hand change files, not the ledger: preflight tells which days. One table takes one commit at a time, so very many days
at once wait for each other. A path holds no backslash, no control character and no ``%`` before two hex digits.

**Errors.** A full disk, a store that is away, and a race lost for a minute are retriable; the old day stands. Missing
rights, another stream's table and a refused feature are for a person to mend. A column whose type changed is bad data.

Vendor facts: https://github.com/delta-io/delta/blob/master/PROTOCOL.md, measured with deltalake 1.6.6 (2026-11).
"""

from __future__ import annotations

import datetime as dt
import logging
import random
import re
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, field_validator

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.sinks._delta.ledger import DeltaLedger, LedgerView
from airflow_provider_connect.sinks._delta.log import delta_errors, open_table, secure
from airflow_provider_connect.sinks._delta.others import foreign_changes, locking_problems
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.sinks._delta.table import OWNER, day_column, delta_columns, merged, ownership_problems
from airflow_provider_connect.stage.manifest import CONTROL
from airflow_provider_connect.stage.storage import Folder, normalised, storage_error
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# Every question to the ledger reads the commits since the last checkpoint, one request each: as often as Spark does it,
# and not after 100 commits, which is what delta-rs would do.
_CHECKPOINT_INTERVAL = "10"
_LOG = logging.getLogger(__name__)
_SCHEMES = ("s3", "s3a", "gs", "abfss")
# delta-rs writes the log of such a path in one place and looks for it in another.
_MISREAD = re.compile(r"\\|%[0-9A-Fa-f]{2}|[\x00-\x1f\x7f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class DeltaSink(Sink):
    """Options of a Delta table as a sink."""

    name: ClassVar[str] = "delta"

    path: str = Field(
        description="Root of the table: an absolute path, or a URL (s3://, gs://, abfss://).",
        examples=["/data/lake/events", "s3://bucket/lake/events"],
    )
    sweep_after: dt.timedelta = Field(
        default=ONE_DAY,
        ge=dt.timedelta(minutes=10),
        description="How long an attempt must have been silent, by the storage's clock, before its unpublished files "
        "are deleted.",
    )
    schema_contract: Literal["evolve", "freeze"] = Field(
        default="evolve", description="What happens to a column the table lacks: 'evolve' adds it, 'freeze' fails."
    )

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        given = path
        try:
            path = normalised(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if "://" in path and path.partition("://")[0] not in _SCHEMES:
            raise ValueError(f"a Delta table lies on a local path or on {', '.join(_SCHEMES)}")
        if path == "/":
            raise ValueError("the root of the filesystem cannot be a table")
        # A URL is parsed without its control characters, so what was given is looked at too.
        if (misread := _MISREAD.search(path) or _CONTROL.search(given)) is not None:
            raise ValueError(
                f"{misread[0]!r} in the path of a Delta table is read as another place by its readers: choose a path "
                "without backslashes, control characters and '%' before two hex digits"
            )
        return path

    @property
    def target(self) -> str:
        """The table's path or URL, in one spelling."""
        return self.path

    @property
    def asset_uri(self) -> str:
        """The target as a URI; a local path becomes ``file:///…``."""
        return self.path if "://" in self.path else f"file://{quote(self.path)}"

    def preflight(
        self, schema: pa.Schema, key: StreamKey, days: Sequence[Day], connections: Connections, kind: SourceKind = "day"
    ) -> list[str]:
        """Find what would fail the publish; make the table when nothing would and there is none yet."""
        try:
            if problems := locking_problems(self.path):
                return problems
            columns = delta_columns(schema)
            table = open_table(self.path)
            if table is None:
                self._probe()
                table = self._made(schema, key)
            if problems := ownership_problems(table, key, self.path):
                return problems
            merged(table, columns, self.schema_contract, self.path)
            self._probe()
            folder = Folder(self.path)
            secure(folder, table)
            if changes := foreign_changes(LedgerView(folder, table, key)):
                _LOG.warning("table %s: %s", self.path, changes)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    def stage_root(self, connections: Connections) -> str:
        """Return the table's root: staged files are the table's files."""
        return self.path

    def ledger(self, key: StreamKey, connections: Connections) -> DeltaLedger:
        """Return the ledger that lives in the table's log."""
        return DeltaLedger(self.path, key)

    def commit(
        self, publish: Publish, schema: pa.Schema, token: Any, receipts: list[Any], connections: Connections
    ) -> LedgerRow:
        """Replace the day by the staged files and write its ledger row, in one commit to the Delta log."""
        return Commit(self.path, self.schema_contract, publish, schema).run()

    def sweep(self, key: StreamKey, connections: Connections) -> int:
        """Delete unpublished files of attempts that have been silent for ``sweep_after``."""
        return Sweeper(Folder(self.path), key, self.sweep_after).run()

    def _made(self, schema: pa.Schema, key: StreamKey) -> DeltaTable:
        """Make this stream's table; return it, or the one that another process made at the same instant."""
        from deltalake import DeltaTable, Schema

        for _ in range(20):
            try:
                DeltaTable.create(
                    self.path,
                    Schema([*delta_columns(schema).values(), day_column()]),
                    partition_by=["day"],
                    configuration={OWNER: str(key), "delta.checkpointInterval": _CHECKPOINT_INTERVAL},
                    raise_if_key_not_exists=False,
                )
            except delta_errors() as error:
                failure = storage_error(self.path, error)
            if (table := open_table(self.path)) is not None:
                return table
            time.sleep(random.uniform(0, 0.1))  # noqa: S311  # jitter, not a secret
        raise failure

    def _probe(self) -> None:
        """Write and delete a small file under the root."""
        folder = Folder(self.path)
        parent = Folder(self.path.rpartition("/")[0] or "/")
        if folder.local and not parent.exists():
            raise ConfigError(f"{parent.url} does not exist: make it, or mend path={self.path!r}")
        probe = f"{CONTROL}/probe-{uuid.uuid4().hex}"
        folder.write(probe, b"\0" * 65536)
        folder.delete(probe)
