"""Delta Lake table on a local path or an object store, one partition ``day`` (DATE) for each day; needs no server.

The stage lies under the table's root and staged files *are* the table's files: publishing a day is one commit to the
Delta log, which moves no byte. Readers (Spark, DuckDB, polars, Trino, BigQuery) see the old day or the new one, never a
part.

**Ledger.** The commit carries the ledger as Delta application transactions, which survive checkpoints and the
clean-up of the log: ``connect/<connector>/<stream>/<day>`` holds the generation, ``…/order`` the intent's order,
``…/token/<token>`` and ``…/attempt/<attempt>`` the generation they published. Details for people stand in the commit's
metadata (``DESCRIBE HISTORY``), under ``connect.…``.

**Connection.** None: rights on the path are those of the environment (AWS_*, GOOGLE_*, AZURE_*, a role of the
machine), which the Airflow task, the driver and the executors all need. A path with credentials in it is refused.

**Delivery.** Each day once, and whole. Two publishers of one day both read, decide and commit from one snapshot of the
table. Delta refuses a commit when another since that snapshot wrote the same application transaction, so the later one
reads anew and decides again. A reload replaces the day; older versions stay readable until they are vacuumed.

**Schema.** New columns are added, at the end and nullable, by the commit itself (``schema_contract="freeze"``
refuses them); columns the source no longer has stay and read as null. A changed type fails the day.

**Ownership.** One table belongs to one stream and says so in its property ``connect.stream``; any other is refused. A
table made by hand needs the property from its CREATE TABLE on (``'connect.stream' = 'mixpanel/<conn_id>.export'``):
setting it later with delta-rs would raise the table's protocol. Column mapping, constraints and deletion vectors are
refused.

**Limits.** ``days()`` may miss an empty day that stands apart, beyond an unpublished day at either end of the
table, once its commit has left the log (30 days by default); ``row()`` still knows it. RESTORE by hand moves files,
not the ledger. One table takes one commit at a time, so very many days at once wait for each other.

**Errors.** A full disk, a store that is away, and a race lost for a minute are retriable; the old day stands. Missing
rights, another stream's table and a refused feature are for a person to mend. A column whose type changed is bad data.

Vendor facts: https://github.com/delta-io/delta/blob/master/PROTOCOL.md, measured with deltalake 1.6.6 (2026-11).
"""

from __future__ import annotations

import datetime as dt
import json
import random
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, field_validator

from airflow_provider_connect.errors import ConfigError, DataError, SupersededError
from airflow_provider_connect.sink import Connections, LedgerRow, Publish, Sink, StreamKey
from airflow_provider_connect.sinks._delta_ledger import DeltaLedger, LedgerView, details, transactions
from airflow_provider_connect.sinks._delta_sweep import Sweeper, claim
from airflow_provider_connect.sinks._delta_table import (
    OWNER,
    allow_local_times,
    day_column,
    delta_columns,
    delta_errors,
    lost_race,
    merged,
    open_table,
    ownership_problems,
)
from airflow_provider_connect.stage import CONTROL, StagedFile
from airflow_provider_connect.storage import Entry, Folder, normalised, storage_error
from airflow_provider_connect.window import ONE_DAY, Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField

PUBLISH_SECONDS = 60.0
_SCHEMES = ("s3", "s3a", "gs", "abfss")


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
        description="How long an attempt must have been silent before its unpublished files are deleted.",
    )
    schema_contract: Literal["evolve", "freeze"] = Field(
        default="evolve", description="What happens to a column the table lacks: 'evolve' adds it, 'freeze' fails."
    )

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        try:
            path = normalised(path)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if "://" in path and path.partition("://")[0] not in _SCHEMES:
            raise ValueError(f"a Delta table lies on a local path or on {', '.join(_SCHEMES)}")
        if path == "/":
            raise ValueError("the root of the filesystem cannot be a table")
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
            table = open_table(self.path)
            columns = delta_columns(schema)
            problems = ownership_problems(table, key, self.path) if table else []
            if table and not problems:
                merged(table, columns, self.schema_contract, self.path)
            if not problems:
                self._probe()
                self._own(schema, key)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return problems

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
        folder = Folder(self.path)
        deadline = time.monotonic() + PUBLISH_SECONDS
        pause_seconds = 0.02
        while True:
            table = self._own(schema, publish.key)
            view = LedgerView(table, publish.key)
            row = view.published(publish.day.date, publish.intent.token)
            if row is not None:
                return row
            _refuse_older(view, publish)
            files = claim(folder, publish)
            try:
                fields = merged(table, delta_columns(schema), self.schema_contract, self.path)
                if allow_local_times(table, fields):
                    continue  # on a newer version of the table: decide again
                return _commit_from(table, view, publish, fields, files)
            except delta_errors() as error:
                # The commit may have landed all the same: the next turn reads the ledger first.
                failure = storage_error(self.path, error)
                if not lost_race(error):
                    deadline = min(deadline, time.monotonic() + 1)
            if time.monotonic() > deadline:
                raise failure
            time.sleep(random.uniform(0, pause_seconds))  # noqa: S311  # jitter, not a secret
            pause_seconds = min(pause_seconds * 2, 2.0)

    def sweep(self, key: StreamKey, connections: Connections) -> int:
        """Delete unpublished files of attempts that have been silent for ``sweep_after``."""
        table = open_table(self.path)
        if table is not None and table.metadata().configuration.get(OWNER) != str(key):
            return 0
        return Sweeper(Folder(self.path), LedgerView(table, key), dt.datetime.now(dt.UTC) - self.sweep_after).run()

    def _own(self, schema: pa.Schema, key: StreamKey) -> DeltaTable:
        """Return a fresh snapshot of this stream's table; make it first if there is none.

        :raises ConfigError: the table is another's, or not one this sink can write.
        """
        from deltalake import DeltaTable, Schema

        for _ in range(20):
            table = open_table(self.path)
            if table is not None:
                if problems := ownership_problems(table, key, self.path):
                    raise ConfigError("; ".join(problems))
                return table
            try:
                DeltaTable.create(
                    self.path,
                    Schema([*delta_columns(schema).values(), day_column()]),
                    partition_by=["day"],
                    configuration={OWNER: str(key)},
                    raise_if_key_not_exists=False,
                )
            except delta_errors() as error:
                # Another process may have made it at the same instant: look again.
                failure = storage_error(self.path, error)
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


def _refuse_older(view: LedgerView, publish: Publish) -> None:
    """Raise SupersededError when the day was published for a newer intent."""
    order = view.transaction(publish.day.date, "/order")
    if order is not None and order > publish.intent.order:
        where = f"{publish.key} {publish.day}"
        raise SupersededError.by(view.generation(publish.day.date), where, publish.intent.run)


def _commit_from(
    table: DeltaTable, view: LedgerView, publish: Publish, fields: list[DeltaField], files: dict[str, Entry]
) -> LedgerRow:
    """Commit on top of exactly this snapshot, and describe what was committed."""
    from deltalake import CommitProperties, Schema, Transaction

    row = LedgerRow(
        day=publish.day.date,
        generation=view.generation(publish.day.date) + 1,
        token=publish.intent.token,
        order=publish.intent.order,
        rows=sum(file.rows for file in publish.manifest.polled.files),
        digest=publish.manifest.polled.digest,
        attempt=publish.manifest.attempt,
        counts=publish.manifest.polled.all_counts,
        published_at=dt.datetime.now(dt.UTC),
    )
    table.create_write_transaction(
        [_add_action(file, publish, files[file.path]) for file in publish.manifest.polled.files],
        mode="overwrite",
        schema=Schema(fields),
        partition_by=["day"],
        partition_filters=[("day", "=", str(row.day))],
        commit_properties=CommitProperties(
            custom_metadata=details(row, publish),
            max_commit_retries=100,
            app_transactions=[
                Transaction(app_id, version) for app_id, version in transactions(row, publish.key).items()
            ],
        ),
    )
    return row


def _add_action(file: StagedFile, publish: Publish, entry: Entry) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={"day": str(publish.day)},
        modification_time=int(entry.modified.timestamp() * 1000),
        data_change=True,
        stats=json.dumps({**file.stats, "numRecords": file.rows}),
    )
