"""Publishes a day into a Delta table: reads a version of it, and commits on exactly that version.

A day replaces its own files. A source's snapshot replaces all files of the table, unless the table keeps one a day.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling
from airflow_provider_connect.publishing import next_generation, row_of, seen_in
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.definitions import definition_transactions
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.increments import increment_transaction, snapshot_transaction
from airflow_provider_connect.sinks._delta.late import kept_out_transactions, late_transactions
from airflow_provider_connect.sinks._delta.ledger import (
    LedgerView,
    app_id,
    app_prefix,
    details,
    transactions,
)
from airflow_provider_connect.sinks._delta.log import (
    delta_errors,
    log_errors,
    lost_race,
    open_table,
    secure,
)
from airflow_provider_connect.sinks._delta.others import require_only_newest
from airflow_provider_connect.sinks._delta.soft import Deleting, copy_transaction, deleted_transactions
from airflow_provider_connect.sinks._delta.sweep import claim
from airflow_provider_connect.sinks._delta.table import (
    allow_local_times,
    delta_columns,
    merged,
    ownership_problems,
    soft_columns,
)
from airflow_provider_connect.stage.deleted import IN_ALL
from airflow_provider_connect.stage.erasing import is_erase_run
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.missing import Deleted
from airflow_provider_connect.stage.storage import Entry, Folder, storage_error

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField
    from deltalake.transaction import AddAction, RemoveAction

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

T = TypeVar("T")

PUBLISH_SECONDS = 60.0
RACE_SECONDS = 600.0
"""How long other commits may go on being faster: each of them is somebody's progress, and each try compares anew."""
_PAUSES = doubling(0.02, 2.0)


@dataclass(frozen=True)
class Commit:
    """Replaces a day, or the whole, by staged files, and writes its ledger row, in one commit to the log.

    The version that the commit builds on decides whether it may. Delta refuses the commit if another one has written
    one of its application transactions (the day's, the attempt's or the snapshot's) since; then a new version decides.
    """

    options: DeltaOptions
    publish: Publish
    deleted: Deleting = field(default_factory=Deleting)

    @property
    def path(self) -> str:
        """The table's root."""
        return self.options.path

    @property
    def replaces_whole(self) -> bool:
        """Whether this publish removes the rows of every other day."""
        return self.options.replaces_whole(self.publish.kind)

    def run(self) -> LedgerRow:
        """Publish, or return the ledger row if this intent has published already."""
        return until_done(self.path, self._try)

    def _try(self) -> LedgerRow | None:
        """Decide by the newest version; None if it must be decided again."""
        table, folder = self._table(), Folder(self.path)
        view = LedgerView(folder, table, self.publish.key)
        row = view.published(self.publish.day.date, self.publish.intent.token)
        if row is None:
            generation = self._generation(view)
            if self.replaces_whole:
                require_only_newest(view)
            files = claim(folder, view, self.publish)
            own = soft_columns() if self.softly else {}
            fields = merged(table, delta_columns(self.publish.schema), self.options.schema_contract, self.path, own)
            if allow_local_times(table, fields):
                return None  # the table has a newer version
            deleted = self.deleted.of(view, self.publish) if self.softly and not self._is_erase else None
            row = row_of(self.publish, generation, **self._figures(deleted))
            added: list[AddAction | RemoveAction] = [
                add_action(file, self.publish, files[file.path]) for file in self.publish.manifest.polled.files
            ]
            recorded = self._recorded(view, row)
            if deleted is not None:
                recorded |= copy_transaction(self.publish.key, row.attempt or "", deleted)
            if deleted is not None and deleted.file is not None:
                entry = folder.entries([deleted.file.path])[deleted.file.path]
                added.append(add_action(deleted.file, self.publish, entry))
            self._commit(table, row, fields, added, recorded)
        secured(folder, table)
        return row

    @property
    def softly(self) -> bool:
        """Whether rows that this publish no longer has stay, as deleted."""
        return self.options.deletes_softly(self.publish.kind)

    @property
    def _is_erase(self) -> bool:
        """Whether what is staged are the table's own rows, deleted ones included: what it lacks is to be gone."""
        return is_erase_run(self.publish.intent.run)

    def _figures(self, deleted: Deleted | None) -> dict[str, Any]:
        """Return what the ledger row says of the rows: deleted ones do not count as rows."""
        polled = self.publish.manifest.polled
        counts = polled.all_counts | (deleted.counts if deleted is not None else {})
        rows = sum(file.rows for file in polled.files)
        return {"rows": rows - polled.counts.get(IN_ALL, 0), "counts": counts}

    def _table(self) -> DeltaTable:
        """Return the table at its newest version.

        :raises ConfigError: it is gone, belongs to another stream, or this sink cannot write it.
        """
        table = open_table(self.path)
        if table is None:
            raise ConfigError(f"table {self.path} was deleted during a publish: clear the task")
        if problems := ownership_problems(table, self.publish.key, self.path):
            raise ConfigError("; ".join(problems))
        return table

    def _generation(self, view: LedgerView) -> int:
        """Compare what the attempt saw before it polled with this version; return the generation to publish."""
        day = view.before(self.publish.day.date, self.publish.kind, replaces_whole=self.replaces_whole)
        return next_generation(self.publish, self._newest(view, day), erased=erase_version(view.table))

    def _newest(self, view: LedgerView, day: dt.date) -> LedgerRow | None:
        run = self.publish.intent.run
        newest = view.newest(day, run)
        # The loser's next step depends on who won.
        seen = seen_in(newest, erase_version(view.table))
        return newest if seen == self.publish.manifest.seen else view.row(day, run)

    def _recorded(self, view: LedgerView, row: LedgerRow) -> dict[str, int]:
        """Return the application transactions of this publish: id to version."""
        prefix = app_prefix(self.publish.key)
        recorded = transactions(row, self.publish.key)
        recorded |= definition_transactions(self.publish, row.generation, view.recorded, prefix)
        app = app_id(self.publish.key, row.day)
        for counted in (late_transactions, kept_out_transactions, deleted_transactions):
            recorded |= {app + what: version for what, version in counted(row, view.transaction).items()}
        if self.replaces_whole:
            recorded |= snapshot_transaction(row, prefix)
        if row.span is not None and view.transaction(row.day) is None:
            recorded |= increment_transaction(row, prefix)
        return recorded

    def _commit(
        self,
        table: DeltaTable,
        row: LedgerRow,
        fields: list[DeltaField],
        added: list[AddAction | RemoveAction],
        recorded: dict[str, int],
    ) -> None:
        from deltalake import CommitProperties, Schema, Transaction

        table.create_write_transaction(
            added,
            mode="overwrite",
            schema=Schema(fields),
            partition_by=["day"],
            partition_filters=None if self.replaces_whole else [("day", "=", str(row.day))],
            commit_properties=CommitProperties(
                custom_metadata=details(row, self.publish),
                # What is replaced is what was read, all of it. Tried again by itself, delta-rs would commit on top of a
                # compaction that came between, and that one's files would stay beside ours.
                max_commit_retries=0 if self.replaces_whole or row.generation > 1 else 100,
                app_transactions=[Transaction(app_id, version) for app_id, version in recorded.items()],
            ),
        )


def add_action(file: StagedFile, publish: Publish, entry: Entry) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={"day": str(publish.day)},
        modification_time=int(entry.modified.timestamp() * 1000),
        data_change=True,
        stats=json.dumps({**file.stats, "numRecords": file.rows}),
    )


def secured(folder: Folder, table: DeltaTable) -> None:
    """Flush what is committed to the disk, and note the log's version: then it survives a power cut.

    After an error it stays in the log: the next try finds it.
    """
    with log_errors(table):
        table.update_incremental()
    secure(folder, table)


def until_done(path: str, attempt: Callable[[], T | None]) -> T:
    """Try a commit until it is decided: each try reads the log anew.

    :param attempt: returns None if it must be decided again.
    :raises RetriableError: other commits were always faster, or the storage is away.
    """
    patience = Patience(PUBLISH_SECONDS, _PAUSES, jitter=FROM_NONE)
    races = Patience(RACE_SECONDS, _PAUSES, jitter=FROM_NONE)
    while True:
        waits = patience
        try:
            done = attempt()
        except delta_errors() as error:
            # The commit may have landed nevertheless: the next turn reads the log first.
            failure = storage_error(path, error)
            if lost_race(error):
                waits = races
                patience.restart()  # the storage answers
            else:
                patience.shorten(1.0)
        else:
            if done is not None:
                return done
            continue
        if not waits.look_again():
            raise failure
