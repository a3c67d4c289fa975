"""Publishes a day into a Delta table: reads a version of it, and commits on exactly that version.

A day replaces its own files. A source's snapshot replaces all files of the table, unless the table keeps one a day.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation, seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.app_transactions import (
    app_prefix,
    commit_metadata,
    confirmation_metadata,
    confirmation_transactions,
    deleted_file_id,
    publish_transactions,
)
from airflow_provider_connect.sinks._delta.definitions import day_definition_transactions, in_force_transactions
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.foreign_writers import require_only_newest_snapshot
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import (
    commit,
    delta_errors,
    is_lost_race,
    make_durable,
    open_table,
    translate_log_errors,
)
from airflow_provider_connect.sinks._delta.soft_deletes import SoftDeleter
from airflow_provider_connect.sinks._delta.sweep import claim_files, delete_confirmed_attempt
from airflow_provider_connect.sinks._delta.table import (
    add_local_time_feature,
    delta_columns,
    merge_columns,
    ownership_problems,
    soft_delete_columns,
)
from airflow_provider_connect.stage.erase_list import is_erase_run
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED_TOTAL, deleted_file_number
from airflow_provider_connect.stage.storage import Folder, StoredFile, storage_error

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField

    from airflow_provider_connect.sinks._delta.options import DeltaOptions


T = TypeVar("T")

PUBLISH_SECONDS = 60.0
RACE_SECONDS = 600.0
"""How long other commits may go on being faster: each of them is somebody's progress, and each try compares anew."""
_PAUSES = doubling_pauses(0.02, 2.0)


@dataclass(frozen=True)
class Commit:
    """Replaces a day, or the whole, by staged files, and writes its ledger row, in one commit to the log.

    The version that the commit builds on decides whether it may. Delta refuses the commit if another one has written
    one of its application transactions (the day's, the attempt's or the snapshot's) since; then a new version decides.
    """

    options: DeltaOptions
    publish: Publish
    soft_deleter: SoftDeleter = field(default_factory=SoftDeleter)

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
        return retry_until_decided(self.path, self._try)

    def _try(self) -> LedgerRow | None:
        """Decide by the newest version; None if it must be decided again."""
        table = self._table()
        view = LedgerView(Folder(self.path), table, self.publish.key)
        row = view.published(self.publish.day.date, self.publish.intent.token)
        if row is None and (row := self._publish(view, table)) is None:
            return None
        flush_log(view.folder, table)
        return row

    def _publish(self, view: LedgerView, table: DeltaTable) -> LedgerRow | None:
        """Commit on top of exactly this version; None if the table has a newer one."""
        publish, polled, folder = self.publish, self.publish.manifest.polled, view.folder
        day = view.predecessor_day(publish.day.date, publish.kind, replaces_whole=self.replaces_whole)
        generation = next_generation(publish, find_newest(view, publish, day), erased=erase_version(table))
        if self.replaces_whole:
            require_only_newest_snapshot(view)
        found = claim_files(folder, view, publish)
        own = soft_delete_columns() if self.deletes_softly else {}
        columns = merge_columns(table, delta_columns(publish.schema), self.options.schema_contract, self.path, own)
        if add_local_time_feature(table, columns):
            return None
        # What an erase has staged are the table's own rows, deleted ones included: what it lacks is to be gone.
        deletes = self.deletes_softly and not is_erase_run(publish.intent.run)
        deleted = self.soft_deleter.write(view, publish) if deletes else None
        rows = sum(file.rows for file in polled.files) - polled.counts.get(SOFT_DELETED_TOTAL, 0)
        row = ledger_row(publish, generation, rows=rows, counts=polled.all_counts | (deleted.counts if deleted else {}))
        files = list(polled.files)
        recorded = self._recorded(view, row)
        if deleted is not None:
            copy = 0 if deleted.file is None else deleted_file_number(deleted.file.path) or 0
            # The files of deleted rows that the attempt's other tries wrote may be swept.
            recorded[deleted_file_id(publish.key, publish.manifest.attempt)] = copy
            if deleted.file is not None:
                found |= folder.entries([deleted.file.path])
                files.append(deleted.file)
        self._commit(table, row, columns, [add_action(file, publish, found[file.path]) for file in files], recorded)
        return row

    def _commit(
        self, table: DeltaTable, row: LedgerRow, columns: list[DeltaField], files: list[Any], recorded: dict[str, int]
    ) -> None:
        commit(
            table,
            recorded,
            commit_metadata(row, self.publish),
            files=files,
            columns=columns,
            mode="overwrite",
            day=None if self.replaces_whole else row.day,
            # What is replaced is what was read, all of it. Tried again by itself, delta-rs would commit on top of a
            # compaction that came between, and that one's files would stay beside ours.
            retries=0 if self.replaces_whole or row.generation > 1 else 100,
        )

    @property
    def deletes_softly(self) -> bool:
        """Whether rows that this publish no longer has stay, as deleted."""
        return self.options.deletes_softly(self.publish.kind)

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

    def _recorded(self, view: LedgerView, row: LedgerRow) -> dict[str, int]:
        """Return the application transactions of this publish: id to version.

        Snapshots that replace the whole table all write the same one, and so do increments that follow another day's.
        So Delta lets only one of two pass, even if they are of different days.
        """
        prefix = app_prefix(self.publish.key)
        recorded = publish_transactions(row, self.publish.key, view.transaction)
        recorded |= in_force_transactions(self.publish, view.app_transactions, prefix)
        recorded |= day_definition_transactions(self.publish, row.generation, view.app_transactions, prefix)
        if self.replaces_whole:
            recorded[f"{prefix}snapshot"] = int(f"{row.day:%Y%m%d}")
        if row.span is not None and view.transaction(row.day) is None:
            recorded[f"{prefix}increment"] = row.span.number
        return recorded


def find_newest(view: LedgerView, publish: Publish, day: dt.date) -> LedgerRow | None:
    """Return a day's newest publish; with its details if it is not what the attempt saw.

    The loser's next step depends on who won.
    """
    newest = view.newest(day, publish.intent.run)
    seen = seen_publish(newest, erase_version(view.table))
    return newest if seen == publish.manifest.seen else view.row(day, publish.intent.run)


def add_action(file: StagedFile, publish: Publish, entry: StoredFile) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={"day": str(publish.day)},
        modification_time=int(entry.modified.timestamp() * 1000),
        data_change=True,
        stats=json.dumps({**file.stats, "numRecords": file.rows}),
    )


def flush_log(folder: Folder, table: DeltaTable) -> None:
    """Flush what is committed to the disk, and note the log's version: then it survives a power cut.

    After an error it stays in the log: the next try finds it.
    """
    with translate_log_errors(table):
        table.update_incremental()
    make_durable(folder, table)


def retry_until_decided(path: str, try_commit: Callable[[], T | None]) -> T:
    """Try a commit until it is decided: each try reads the log anew.

    :param attempt: returns None if it must be decided again.
    :raises RetriableError: other commits were always faster, or the storage is away.
    """
    patience = Patience(PUBLISH_SECONDS, _PAUSES, jitter=FROM_NONE)
    races = Patience(RACE_SECONDS, _PAUSES, jitter=FROM_NONE)
    while True:
        waits = patience
        try:
            done = try_commit()
        except delta_errors() as error:
            # The commit may have landed nevertheless: the next turn reads the log first.
            failure = storage_error(path, error)
            if is_lost_race(error):
                waits = races
                patience.restart()  # the storage answers
            else:
                patience.shorten(1.0)
        else:
            if done is not None:
                return done
            continue
        if not waits.wait_and_poll():
            raise failure


@dataclass(frozen=True)
class Confirmation(Commit):
    """Notes in one commit to the log that a day's answer was given once more, and that its attempt is never published.

    It writes the day's application transaction again. So Delta refuses it if another commit has published or confirmed
    the day since the version that it builds on, and refuses such a commit after it; then a new version decides.
    """

    def _try(self) -> LedgerRow | None:
        """Confirm, or return the ledger row if this intent has published or confirmed already."""
        publish, table = self.publish, self._table()
        view = LedgerView(Folder(self.path), table, publish.key)
        row = found = view.published(publish.day.date, publish.intent.token)
        if row is None:
            row = confirmed_row(publish, find_newest(view, publish, publish.day.date), erase_version(table))
            self._write(table, row)
        flush_log(view.folder, table)
        if found is None:
            with suppress(ConnectError):  # a sweep finds them
                delete_confirmed_attempt(view.folder, publish)
        return row

    def _write(self, table: DeltaTable, row: LedgerRow) -> None:
        recorded = confirmation_transactions(row, self.publish.key, self.publish.manifest.attempt)
        commit(table, recorded, confirmation_metadata(row, self.publish))
