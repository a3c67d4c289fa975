"""Publishes a day by merging it into the table by key: files, tombstones and ledger row in one commit."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.publishing import ledger_row, next_generation
from airflow_provider_connect.sink import LedgerRow
from airflow_provider_connect.sinks._delta.app_transactions import commit_metadata
from airflow_provider_connect.sinks._delta.attempt_files import merged_file_id
from airflow_provider_connect.sinks._delta.commit import Commit, find_newest
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.log import add_action, commit
from airflow_provider_connect.sinks._delta.merge.files import MergedFiles
from airflow_provider_connect.sinks._delta.merge.matching import Decision, Matcher, PublishedFile
from airflow_provider_connect.sinks._delta.merge.row_source import KeyReader
from airflow_provider_connect.sinks._delta.merge.tombstones import (
    ReplacedTombstonesError,
    TombstoneWriter,
    deleted_rows,
    read_tombstones,
    tombstone_schema,
    tombstones_file,
    tombstones_id,
    tombstones_number,
    tombstones_of_other_days,
)
from airflow_provider_connect.sinks._delta.merge_rule import MergeRule, require_write_mode, rule_of, rule_transactions
from airflow_provider_connect.sinks._delta.sweep import claim_files
from airflow_provider_connect.sinks._delta.table import add_columns
from airflow_provider_connect.stage.manifest import StagedFile
from airflow_provider_connect.stage.rows import first_position, open_parquet
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.ledger import LedgerView

MAX_NUMBER = 0xFFFFFFFF
"""Largest number of a try's files."""


@dataclass
class _Merge:
    """Files of one try, written for one version of the table.

    :param basis: live files and tombstones of that version.
    :param removed: live files that the commit removes.
    :param rows: rows of the day after the merge, or of the table for a snapshot of the whole table.
    """

    basis: tuple[object, ...]
    files: MergedFiles
    decision: Decision
    removed: list[str]
    rows: int
    tombstones: int
    tombstone_writer: TombstoneWriter | None = None

    def delete(self) -> None:
        """Delete the files, which no commit names."""
        self.files.delete()
        if self.tombstone_writer is not None:
            self.tombstone_writer.delete()


@dataclass(frozen=True)
class MergeCommit(Commit):
    """One publish that merges a staged day by key. The commit builds on exactly the version that it has read."""

    _merges: list[_Merge] = field(default_factory=list)

    def run(self) -> LedgerRow:
        """Publish the day. Deletes the staged files, which are not the table's."""
        row = super().run()
        if row.attempt == self.publish.manifest.attempt:
            with suppress(ConnectError):  # a sweep deletes them later
                for file in self.publish.manifest.polled.files:
                    Folder(self.path).delete(file.path)
        return row

    def _publish(self, view: LedgerView, table: DeltaTable) -> LedgerRow | None:
        publish, polled = self.publish, self.publish.manifest.polled
        rule = rule_of(self.options)
        assert rule is not None
        slot = view.slot_for(publish.day.date, publish.manifest.span)
        predecessor = view.predecessor(publish.day.date, slot.span, replaces_whole=self.replaces_whole)
        generation = next_generation(publish, find_newest(view, publish, predecessor), erased=erase_version(table))
        require_write_mode(view, rule)
        require_days(view)
        self._require_no_rejects()
        claim_files(view.folder, view, publish)
        columns = self._columns(view)
        if columns is None or add_columns(table, columns):
            return None
        try:
            merge = self._merge(view, rule)
        except ReplacedTombstonesError:
            return None
        except FileNotFoundError as error:
            raise RetriableError(
                f"table {self.path}: a file that its log names is gone. Another process may have just cleaned it up. "
                "If the error stays, restore the file"
            ) from error
        counts = polled.all_counts | ({"vanished": merge.decision.vanished} if self.replaces_whole else {})
        row = ledger_row(publish, generation, rows=merge.rows, counts=counts)
        app_transactions = self._app_transactions(view, row, slot) | rule_transactions(view, rule)
        return row if self._commit_merge(view, table, row, merge, app_transactions) else None

    def _require_no_rejects(self) -> None:
        rejected = sum(file.rows for file in self.publish.manifest.polled.rejects)
        if self.replaces_whole and rejected:
            raise DataError(
                f"table {self.path}: the source has set {rejected:,} rows of the snapshot aside. Without their keys, "
                "vanished rows cannot be found. Correct them in the source"
            )

    def _merge(self, view: LedgerView, rule: MergeRule) -> _Merge:
        """Write the files of the merge, or return those of an earlier try if the table has the same files."""
        basis = (sorted(path for _, path, _ in view.files), tombstones_number(view))
        if self._merges and self._merges[-1].basis == basis:
            return self._merges[-1]
        while self._merges:
            self._merges.pop().delete()
        self._merges.append(self._write(view, rule, basis))
        return self._merges[-1]

    def _write(self, view: LedgerView, rule: MergeRule, basis: tuple[object, ...]) -> _Merge:
        day, attempt = self.publish.day.date, self.publish.manifest.attempt
        types = view.column_types
        paths = sorted((file.path for file in self.publish.manifest.polled.files), key=first_position)
        published = [PublishedFile(*values) for values in view.file_statistics(rule.key)]
        tombstones = tombstones_file(view)
        matcher = Matcher(
            view.folder, KeyReader(rule, types), day, paths, published, tombstones, replaces_whole=self.replaces_whole
        )
        decision = matcher.decide()
        files = MergedFiles(view, attempt, 1 + secrets.randbelow(MAX_NUMBER), rule.key)
        try:
            files.write_added(day, self._row_schema(types), paths, decision)
            for file in published:
                if file.path in decision.dropped:
                    files.rewrite(file, decision.dropped[file.path])
            number, writer = self._write_tombstones(view, rule, decision, paths, tombstones)
        except BaseException:
            with suppress(ConnectError):
                files.delete()
            raise
        removed = list(decision.dropped)
        kept = [(date, path, rows) for date, path, rows in view.files if path not in decision.dropped]
        rows = sum(
            rows if rows is not None else _count_rows(view, path)
            for date, path, rows in kept
            if self.replaces_whole or date == day
        )
        rows += sum(file.rows for date, file in files.added if self.replaces_whole or date == day)
        return _Merge(basis, files, decision, removed, rows, number, writer)

    def _row_schema(self, types: dict[str, pa.DataType]) -> pa.Schema:
        """Return the columns of the day's rows, in the table's types."""
        import pyarrow as pa

        fields = [field for field in self.publish.schema if field.name != "day"]
        return pa.schema([field.with_type(types[field.name]).with_nullable(True) for field in fields])  # noqa: FBT003

    def _write_tombstones(
        self, view: LedgerView, rule: MergeRule, decision: Decision, paths: list[str], published: str | None
    ) -> tuple[int, TombstoneWriter | None]:
        """Write the tombstones if the day changes them. Returns their file's number, and its writer."""
        import pyarrow.compute as pc

        day, number = self.publish.day.date, tombstones_number(view)
        if rule.delete_where is None:
            return number, None
        schema = tombstone_schema(rule, view.column_types)
        had_own = published is not None and any(
            pc.any(pc.equal(batch.column("day"), day)).as_py() for batch in read_tombstones(view, published, schema)
        )
        if not had_own and not decision.deletes.any():
            return number, None
        others = read_tombstones(view, published, schema) if published is not None else iter(())
        writer = TombstoneWriter(view, self.publish.manifest.attempt, schema)
        own = deleted_rows(view, paths, decision.deletes, schema, day)
        return writer.write(batch for part in (tombstones_of_other_days(others, day), own) for batch in part), writer

    def _commit_merge(
        self, view: LedgerView, table: DeltaTable, row: LedgerRow, merge: _Merge, app_transactions: dict[str, int]
    ) -> bool:
        """Commit the files of a try. Returns False if some are gone, because a sweep found the attempt dead."""
        app_transactions[merged_file_id(view.key, self.publish.manifest.attempt)] = merge.files.number
        if merge.tombstones != tombstones_number(view):
            app_transactions[tombstones_id(view)] = merge.tombstones
        try:
            actions = file_actions(view, merge.files.added, merge.removed)
        except FileNotFoundError:
            self._merges.clear()
            return False
        # The decision holds for exactly the version that was read.
        commit(table, app_transactions, commit_metadata(row, self.publish), files=actions, retries=0)
        return True


def file_actions(view: LedgerView, added: list[tuple[dt.date, StagedFile]], removed: list[str]) -> list[Any]:
    """Return the actions of a commit that adds new files and removes live ones.

    :raises FileNotFoundError: a new file is gone.
    """
    from deltalake.transaction import RemoveAction

    stored = view.folder.entries([file.path for _, file in added])
    if missing := [file.path for _, file in added if file.path not in stored]:
        raise FileNotFoundError(missing[0])
    days, sizes, now = {path: date for date, path, _ in view.files}, view.file_sizes(), int(time.time() * 1000)
    return [
        *(add_action(file, date, stored[file.path]) for date, file in added),
        *(
            RemoveAction(
                path=path,
                data_change=True,
                deletion_timestamp=now,
                size=sizes[path],
                partition_values={"day": str(days[path])},
            )
            for path in removed
        ),
    ]


def require_days(view: LedgerView) -> None:
    """Check that every row of a table has a day.

    :raises ConfigError: another writer added rows without a day, which a merge would not see.
    """
    if view.table is not None and len(view.files) != len(view.table.file_uris()):
        raise ConfigError(f"table {view.folder.url} has rows without a day. Delete them by hand first")


def _count_rows(view: LedgerView, path: str) -> int:
    with open_parquet(view.folder, path) as file:
        return int(file.metadata.num_rows)
