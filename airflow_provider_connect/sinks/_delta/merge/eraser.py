"""Erases people's rows from a merged table, by a column of the key: rows day by day, then tombstones."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.app_transactions import SWEPT, attempt_id
from airflow_provider_connect.sinks._delta.commit import Commit, flush_log, retry_until_decided
from airflow_provider_connect.sinks._delta.erase_list import read_erase_list
from airflow_provider_connect.sinks._delta.eraser import ERASE_PREFIX, DeltaEraser
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import commit, delta_errors, is_lost_race
from airflow_provider_connect.sinks._delta.merge.tombstones import (
    TombstoneWriter,
    read_tombstones,
    tombstone_schema,
    tombstones_file,
    tombstones_id,
)
from airflow_provider_connect.sinks._delta.merge_rule import MergeRule, require_write_mode, rule_of
from airflow_provider_connect.sinks._delta.slots import Slot
from airflow_provider_connect.stage.erase_list import Eraser, Erasure, ShapingDigest
from airflow_provider_connect.stage.manifest import progress_file
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


@dataclass(frozen=True)
class MergeEraser(DeltaEraser):
    """Erases by ids in a column of the key."""

    @property
    def _rule(self) -> MergeRule:
        rule = rule_of(self.options)
        assert rule is not None
        return rule

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        """Add ids to the list, and delete all rows and tombstones of the people on the list."""
        erasure = super().erase(values, kind, shaping)
        retry_until_decided(self.options.path, self._erase_tombstones)
        return erasure

    def _view(self) -> LedgerView:
        view = super()._view()
        require_write_mode(view, self._rule)
        if self.column not in self._rule.key:
            # An erased person's row may have replaced or deleted another person's row of the same key.
            raise ConfigError(
                f"write_mode='merge' with key={self._rule.key!r}: by column {self.column!r}, which is not in the key, "
                "later loads would leave out rows that replace or delete other people's rows of the same key, and "
                "these would come back"
            )
        return view

    def _replaces_whole(self, kind: SourceKind) -> bool:
        """Return False: a merged snapshot leaves rows in several days."""
        return False

    def _slots_to_rewrite(self, day: dt.date) -> list[Slot]:
        """Return the day's newest slot: rows of all its increments may lie in one file."""
        return self._view().slots_of(day)[-1:]

    def _files_of(self, view: LedgerView, slot: Slot) -> Iterator[tuple[str, LedgerView, str]]:
        for path in sorted(_files_of_day(view, slot.day)):
            yield "", view, path

    def _commit(self, publish: Publish, view: LedgerView) -> None:
        MergedDayRewrite(self.options, publish, read_files=_files_of_day(view, publish.day.date)).run()

    def _erase_tombstones(self) -> bool | None:
        """Write the tombstones without erased people. Returns None if it must be tried again."""
        view = self._view()
        assert view.table is not None
        path = tombstones_file(view)
        if path is None:
            return True
        schema = tombstone_schema(self._rule, view.column_types)
        eraser = Eraser(read_erase_list(view.folder, view.table).for_columns(schema.names), schema)
        if not any(eraser.erased_mask(batch).true_count for batch in read_tombstones(view, path, schema)):
            return True
        attempt = f"{ERASE_PREFIX}-tombstones-{secrets.token_hex(8)}"
        view.folder.write(progress_file(attempt, 0), b"{}")  # a sweep finds the file of a killed erase by it
        writer = TombstoneWriter(view, attempt, schema)
        number = writer.write(_remaining(view, path, schema, eraser))
        # No files of this attempt are published, so a sweep may delete them once the log names others.
        app_transactions = {tombstones_id(view): number, attempt_id(view.key, attempt): SWEPT}
        try:
            commit(view.table, app_transactions, {"connect.tombstones": "erased"}, retries=0)
        except delta_errors() as error:
            if is_lost_race(error):  # after other errors the log may name the file
                writer.delete()
            raise
        flush_log(view.folder, view.table)
        view.folder.delete(path)
        return True


@dataclass(frozen=True)
class MergedDayRewrite(Commit):
    """Replaces a day of a merged table by its rewritten rows, if no merge has changed the day's files meanwhile.

    :param read_files: the day's files that were rewritten.
    """

    read_files: frozenset[str] = frozenset()

    @property
    def replaces_whole(self) -> bool:
        """False: only the day's own files are replaced."""
        return False

    def _publish(self, view: LedgerView, table: DeltaTable) -> LedgerRow | None:
        if _files_of_day(view, self.publish.day.date) != self.read_files:
            raise OvertakenError(
                f"{self.publish.key} {self.publish.day}: a merge has changed rows of the day since they were read"
            )
        return super()._publish(view, table)

    def _keeps_others(self, view: LedgerView, slot: Slot) -> bool:
        """Return False: the rewritten rows are those of all increments of the day."""
        return False

    def _visible_rows(self, view: LedgerView) -> int:
        """Return the day's rows, less those that other increments of the day count.

        The newest snapshot's ledger row counts the rows of all days.
        """
        rows, day = super()._visible_rows(view), self.publish.day.date
        other_slots = [slot for slot in view.slots_of(day) if slot.span != self.publish.manifest.span]
        rows = max(0, rows - sum(view.finder(slot)(day, "/rows") or 0 for slot in other_slots))
        if self.options.replaces_whole(self.publish.kind) and day == max(view.days()):
            rows += sum(count or 0 for date, _, count in view.files if date != day)
        return rows


def _files_of_day(view: LedgerView, day: dt.date) -> frozenset[str]:
    return frozenset(path for date, path, _ in view.files if date == day)


def _remaining(view: LedgerView, path: str, schema: pa.Schema, eraser: Eraser) -> Iterator[pa.RecordBatch]:
    for batch in read_tombstones(view, path, schema):
        yield eraser.remove_rows(batch)
