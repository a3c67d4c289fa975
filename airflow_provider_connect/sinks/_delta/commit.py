"""Publishes a day into one Delta table, in a commit on exactly the version that it has read.

The day replaces its own files. A snapshot replaces all files, unless the table keeps the snapshot of each day. An
increment replaces the files of its own span, and keeps those of the day's other spans.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.publishing import confirmed_row, ledger_row, next_generation, seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.app_transactions import (
    app_id,
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
    add_action,
    commit,
    delta_errors,
    is_lost_race,
    make_durable,
    open_table,
    translate_log_errors,
)
from airflow_provider_connect.sinks._delta.merge_rule import require_write_mode
from airflow_provider_connect.sinks._delta.slots import Slot
from airflow_provider_connect.sinks._delta.soft_deletes import SoftDeleter
from airflow_provider_connect.sinks._delta.sweep import claim_files, delete_confirmed_attempt
from airflow_provider_connect.sinks._delta.table import (
    add_columns,
    add_local_time_feature,
    delta_columns,
    merge_columns,
    ownership_problems,
    soft_delete_columns,
)
from airflow_provider_connect.sinks._delta.widening import Widening, refuse_older_types
from airflow_provider_connect.stage.erase_list import is_erase_run
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED_TOTAL, deleted_file_number
from airflow_provider_connect.stage.storage import Folder, storage_error

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField

    from airflow_provider_connect.sinks._delta.options import DeltaOptions


T = TypeVar("T")

PUBLISH_SECONDS = 60.0
RACE_SECONDS = 600.0
"""How long other publishers' commits may come first."""
_PAUSES = doubling_pauses(0.02, 2.0)


@dataclass(frozen=True)
class Commit:
    """One publish: replaces a day, or the whole table, by staged files and writes the ledger row, in one commit.

    Delta refuses the commit if another one has since written its transaction of the day, the attempt or the snapshot.
    The publish then decides again on the newest version.
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
        """Whether this publish removes all other days' rows."""
        return self.options.replaces_whole(self.publish.kind)

    def run(self) -> LedgerRow:
        """Publish the day. Returns the ledger row, also if this intent has published before."""
        return retry_until_decided(self.path, self._try)

    def _try(self) -> LedgerRow | None:
        table = self._table()
        view = LedgerView(Folder(self.path), table, self.publish.key)
        row = view.published(self.publish.day.date, self.publish.intent.token)
        if row is None and (row := self._publish(view, table)) is None:
            return None
        flush_log(view.folder, table)
        return row

    def _publish(self, view: LedgerView, table: DeltaTable) -> LedgerRow | None:
        """Commit on exactly this version. Returns None if there is a newer one."""
        publish, polled, folder = self.publish, self.publish.manifest.polled, view.folder
        span = publish.manifest.span
        slot = view.slot_for(publish.day.date, span)
        keeps_others = self._keeps_others(view, slot)
        predecessor = view.predecessor(publish.day.date, span, replaces_whole=self.replaces_whole)
        generation = next_generation(publish, find_newest(view, publish, predecessor), erased=erase_version(table))
        if not is_erase_run(publish.intent.run):
            require_write_mode(view, None)
        if self.replaces_whole:
            require_only_newest_snapshot(view)
        stored_files = claim_files(folder, view, publish)
        sink_columns = soft_delete_columns() if self.deletes_softly else {}
        columns = self._columns(view, sink_columns)
        if columns is None or (keeps_others and add_columns(table, columns)):
            return None
        # An erase stages the table's own rows, deleted ones included. Rows that it lacks must go.
        writes_deleted_rows = self.deletes_softly and not is_erase_run(publish.intent.run)
        deleted = self.soft_deleter.write(view, publish) if writes_deleted_rows else None
        row = ledger_row(
            publish,
            generation,
            rows=self._visible_rows(view),
            counts=polled.all_counts | (deleted.counts if deleted else {}),
        )
        files = list(polled.files)
        app_transactions = self._app_transactions(view, row, slot)
        if deleted is not None:
            deleted_file = 0 if deleted.file is None else deleted_file_number(deleted.file.path) or 0
            # A sweep may delete the files of deleted rows from the attempt's other tries.
            app_transactions[deleted_file_id(publish.key, publish.manifest.attempt)] = deleted_file
            if deleted.file is not None:
                stored_files |= folder.entries([deleted.file.path])
                files.append(deleted.file)
        additions = [add_action(file, row.day, stored_files[file.path]) for file in files]
        if keeps_others:
            self._commit_beside_others(view, slot, row, additions, app_transactions)
        else:
            self._commit(table, row, columns, additions, app_transactions)
        return row

    def _columns(
        self, view: LedgerView, sink_columns: Mapping[str, DeltaField] = MappingProxyType({})
    ) -> list[DeltaField] | None:
        """Return the table's columns after the publish. None if a commit has changed features or types first.

        :param sink_columns: see :func:`.merge_columns`.
        """
        table, columns, options = view.table, delta_columns(self.publish.schema), self.options
        assert table is not None
        type_change = options.type_change(self.publish.kind)
        if type_change == "wider":
            refuse_older_types(view, self.publish, columns)
        fields = merge_columns(
            table, columns, options.schema_contract, self.path, sink_columns, type_change=type_change
        )
        if add_local_time_feature(table, fields):
            return None
        widening = Widening(view, fields)
        if type_change == "wider" and widening.is_needed:
            widening.run(options.widen_up_to)
            return None
        return fields

    def _visible_rows(self, view: LedgerView) -> int:
        polled = self.publish.manifest.polled
        return sum(file.rows for file in polled.files) - polled.counts.get(SOFT_DELETED_TOTAL, 0)

    def _keeps_others(self, view: LedgerView, slot: Slot) -> bool:
        """Return whether the day has other spans, whose files must stay.

        :raises ConfigError: the publish would replace a day of increments by one that is no increment.
        """
        others = [other for other in view.slots_of(slot.day) if other.suffix != slot.suffix]
        if others and slot.span is None:
            raise ConfigError(
                f"table {self.path}: day {slot.day} holds {len(others) + 1} increments, which a {self.publish.kind} "
                "cannot replace. Load the stream into a new table"
            )
        return bool(others)

    def _commit_beside_others(
        self, view: LedgerView, slot: Slot, row: LedgerRow, additions: list[Any], app_transactions: dict[str, int]
    ) -> None:
        """Commit a span of a day that has other spans: takes out the span's own files, and adds the new ones."""
        from deltalake.transaction import RemoveAction

        assert view.table is not None
        now = int(dt.datetime.now(dt.UTC).timestamp() * 1000)
        removals = [
            RemoveAction(path, data_change=True, deletion_timestamp=now, partition_values={"day": str(slot.day)})
            for _, path, _ in (view.files_of(slot) if row.generation > 1 else ())
        ]
        commit(
            view.table,
            app_transactions,
            commit_metadata(row, self.publish),
            files=[*removals, *additions],
            retries=0 if removals else 100,  # as in _commit
        )

    def _commit(
        self,
        table: DeltaTable,
        row: LedgerRow,
        columns: list[DeltaField],
        files: list[Any],
        app_transactions: dict[str, int],
    ) -> None:
        commit(
            table,
            app_transactions,
            commit_metadata(row, self.publish),
            files=files,
            columns=columns,
            mode="overwrite",
            day=None if self.replaces_whole else row.day,
            # The commit replaces exactly the files that were read. With retries, delta-rs would commit on top of a
            # concurrent compaction, and the compaction's files would stay too.
            retries=0 if self.replaces_whole or row.generation > 1 else 100,
        )

    @property
    def deletes_softly(self) -> bool:
        """Whether vanished rows stay, marked as deleted."""
        return self.options.deletes_softly(self.publish.kind)

    def _table(self) -> DeltaTable:
        table = open_table(self.path)
        if table is None:
            raise ConfigError(f"table {self.path} was deleted during a publish: clear the task")
        if problems := ownership_problems(table, self.publish.key, self.path):
            raise ConfigError("; ".join(problems))
        return table

    def _app_transactions(self, view: LedgerView, row: LedgerRow, slot: Slot) -> dict[str, int]:
        """Return the application transactions of this publish: id to version.

        All snapshots of the whole table write the same id, and so do all new spans of increments. So Delta accepts only
        one of two concurrent ones, even of different days.
        """
        prefix = app_prefix(self.publish.key)
        app_transactions = publish_transactions(row, self.publish.key, view.transaction, slot.suffix)
        app_transactions |= in_force_transactions(self.publish, view.app_transactions, prefix)
        app_transactions |= day_definition_transactions(
            self.publish, row.generation, view.app_transactions, app_id(self.publish.key, row.day, slot.suffix)
        )
        if self.replaces_whole:
            app_transactions[f"{prefix}snapshot"] = int(f"{row.day:%Y%m%d}")
        if row.span is not None and slot.suffix not in [known.suffix for known in view.slots_of(row.day)]:
            app_transactions[f"{prefix}increment"] = row.span.number
        return app_transactions


def find_newest(view: LedgerView, publish: Publish, slot: Slot) -> LedgerRow | None:
    """Return the ledger row of a slot's newest publish, with details if it was made after the attempt's poll.

    If it was made after the attempt's poll, it has details, by which the losing attempt decides whether to poll again.
    """
    newest = view.newest_of(slot, publish.intent.run)
    newest_seen = seen_publish(newest, erase_version(view.table))
    return newest if newest_seen == publish.manifest.seen else view.row_of(slot, publish.intent.run)


def flush_log(folder: Folder, table: DeltaTable) -> None:
    """Flush the log's new commits to the disk, so that they survive a power cut.

    After an error the next try finds them.
    """
    with translate_log_errors(table):
        table.update_incremental()
    make_durable(folder, table)


def retry_until_decided(path: str, try_commit: Callable[[], T | None]) -> T:
    """Call ``try_commit``, which reads the log again, until it returns a result other than None.

    :raises RetriableError: other commits always came first, or the storage does not answer.
    """
    patience = Patience(PUBLISH_SECONDS, _PAUSES, jitter=FROM_NONE)
    races = Patience(RACE_SECONDS, _PAUSES, jitter=FROM_NONE)
    while True:
        active_patience = patience
        try:
            result = try_commit()
        except delta_errors() as error:
            # The commit may have succeeded in spite of the error: the next try reads the log first.
            failure = storage_error(path, error)
            if is_lost_race(error):
                active_patience = races
                patience.restart()  # the storage answers
            else:
                patience.shorten(1.0)
        else:
            if result is not None:
                return result
            continue
        if not active_patience.wait_and_poll():
            raise failure


@dataclass(frozen=True)
class Confirmation(Commit):
    """Confirms in one commit that a day is unchanged. The attempt's files are never published.

    The commit writes the day's transaction again. So of two publishes or confirmations on one version, Delta accepts
    only the first, and the other decides again.
    """

    def _try(self) -> LedgerRow | None:
        publish, table = self.publish, self._table()
        view = LedgerView(Folder(self.path), table, publish.key)
        row = published_row = view.published(publish.day.date, publish.intent.token)
        if row is None:
            newest = find_newest(view, publish, view.predecessor(publish.day.date))
            row = confirmed_row(publish, newest, erase_version(table))
            self._write(table, row)
        flush_log(view.folder, table)
        if published_row is None:
            with suppress(ConnectError):  # a sweep deletes them later
                delete_confirmed_attempt(view.folder, publish)
        return row

    def _write(self, table: DeltaTable, row: LedgerRow) -> None:
        app_transactions = confirmation_transactions(row, self.publish.key, self.publish.manifest.attempt)
        commit(table, app_transactions, confirmation_metadata(row, self.publish))
