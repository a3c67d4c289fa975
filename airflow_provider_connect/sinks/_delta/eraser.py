"""Erases people's rows from a Delta table: extends the erase list, then publishes each day without the rows."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_connect.config import suggest_nearest
from airflow_provider_connect.errors import ConfigError, OvertakenError, SupersededError
from airflow_provider_connect.patience import FROM_NONE, Patience, doubling_pauses
from airflow_provider_connect.publishing import seen_publish
from airflow_provider_connect.sink import Intent, Publish, StreamKey
from airflow_provider_connect.sinks._delta.app_transactions import DELETED_SUFFIX, kept_out_counts, late_counts
from airflow_provider_connect.sinks._delta.commit import Commit
from airflow_provider_connect.sinks._delta.erase_list import erase_version, read_erase_list, write_erase_list
from airflow_provider_connect.sinks._delta.foreign_writers import require_only_newest_snapshot
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import delta_errors, is_lost_race, make_durable, open_table
from airflow_provider_connect.sinks._delta.slots import Slot
from airflow_provider_connect.sinks._delta.soft_deletes import columns_of_files
from airflow_provider_connect.sinks._delta.table import ownership_problems
from airflow_provider_connect.stage.erase_list import (
    EraseList,
    Eraser,
    Erasure,
    ShapingDigest,
    erase_run,
    id_type_problem,
    require_integers,
)
from airflow_provider_connect.stage.key_digest import KeyDigest
from airflow_provider_connect.stage.manifest import Manifest, PollResult, data_file, progress_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rows import open_parquet, read_batches
from airflow_provider_connect.stage.soft_deletes import SOFT_DELETED_TOTAL, deleted_mask
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.storage import Folder, storage_error
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

ERASE_PREFIX = "erase"
"""Prefix of an erase's attempts. A task's attempts begin with a token, which is hex."""
_BATCH_BYTES = 8 * 1024 * 1024
_TRIES = 20
_PAUSES = doubling_pauses(0.05, 2.0)


@dataclass(frozen=True)
class DeltaEraser:
    """Erases by ids in one column, from a stream's table or all tables of its template (:mod:`.tables.eraser`).

    The next erase does the days that a killed one has left.
    """

    options: DeltaOptions
    key: StreamKey
    column: str

    def count_rows(self, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows with these ids, by day."""
        view = self._view()
        self._require_fitting_ids(view, values)
        return self._count_rows(view, EraseList().with_values(self.column, values))

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        """Extend the list, and delete the rows of all people on it."""
        view = self._view()
        self._require_fitting_ids(view, values)
        # Find tables that cannot be erased from before the list grows.
        self._tables(view)
        if self._replaces_whole(kind):
            require_only_newest_snapshot(view)
        erase_list = self._extend_erase_list(values, shaping)
        rows: dict[dt.date, int] = {}
        for day in self._count_rows(self._view(), erase_list):
            rows[day] = self._rewrite_day(Day(date=day), erase_list, kind)
        return Erasure(self.options.path, self.column, len(set(values)), rows, erase_list.version)

    def _view(self) -> LedgerView:
        path = self.options.path
        table = open_table(path)
        if table is None:
            raise ConfigError(f"table {path} does not exist, so no row can be erased")
        self._require_own_table(table, path)
        view = LedgerView(Folder(path), table, self.key)
        require_published_days(view, set(view.days()))
        return view

    def _require_own_table(self, table: DeltaTable, path: str, template: str | None = None) -> None:
        import pyarrow as pa

        problems = ownership_problems(table, self.key, path, template)
        schema = pa.schema(table.schema().to_arrow())
        if self.column not in schema.names:
            problems.append(f"table {path} has no column {self.column!r}; {suggest_nearest(self.column, schema.names)}")
        elif (problem := id_type_problem(schema.field(self.column).type)) is not None:
            problems.append(f"table {path}: column {self.column!r} {problem}")
        if problems:
            raise ConfigError("; ".join(problems))

    def _require_fitting_ids(self, view: LedgerView, values: Sequence[str]) -> None:
        import pyarrow as pa

        assert view.table is not None
        kind = pa.schema(view.table.schema().to_arrow()).field(self.column).type
        if not is_text(kind):
            require_integers(values, self.column, str(kind))

    def _tables(self, view: LedgerView) -> Mapping[str, LedgerView]:
        """Return all tables with the stream's rows, by path under the stage's root. ``""`` is the root."""
        return {"": view}

    def _extend_erase_list(self, values: Sequence[str], shaping: ShapingDigest) -> EraseList:
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            view = self._view()
            assert view.table is not None
            erase_list = read_erase_list(view.folder, view.table)
            longer_list = erase_list.with_values(self.column, values, shaping)
            if longer_list is erase_list:
                return erase_list
            try:
                write_erase_list(view.folder, view.table, longer_list)
                make_durable(view.folder, view.table)
            except delta_errors() as error:
                # The commit may have succeeded in spite of the error: the next try reads the list first.
                if not is_lost_race(error) or not patience.wait_and_retry():
                    raise storage_error(self.options.path, error) from error

    def _count_rows(self, view: LedgerView, erase_list: EraseList) -> dict[dt.date, int]:
        rows: dict[dt.date, int] = {}
        by_column = erase_list.for_columns([self.column])
        for table in self._tables(view).values():
            for day, path, _ in table.files:
                for batch in self._read_column(table.folder, path):
                    if count := Eraser(by_column, batch.schema).erased_mask(batch).true_count:
                        rows[day] = rows.get(day, 0) + count
        return dict(sorted(rows.items()))

    def _read_column(self, folder: Folder, path: str) -> Iterator[pa.RecordBatch]:
        with open_parquet(folder, path) as file:
            if self.column in file.schema_arrow.names:
                yield from file.iter_batches(columns=[self.column])

    def _rewrite_day(self, day: Day, erase_list: EraseList, kind: SourceKind) -> int:
        """Rewrite a day, span by span if increments loaded it. Returns the number of deleted rows."""
        return sum(self._rewrite(day, slot.span, erase_list, kind) for slot in self._slots_to_rewrite(day.date))

    def _slots_to_rewrite(self, day: dt.date) -> list[Slot]:
        return self._view().slots_of(day)

    def _rewrite(self, day: Day, span: Span | None, erase_list: EraseList, kind: SourceKind) -> int:
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            view = self._view()
            slot = view.slot_for(day.date, span)
            attempt = f"{ERASE_PREFIX}{erase_list.version}-{secrets.token_hex(8)}-{day.date:%Y%m%d}"
            # The table may hold deleted rows although its next snapshot will delete them hard.
            softly = self.options.deletes_softly(kind) or bool(view.transaction(day.date, DELETED_SUFFIX))
            polled = self._stage_rewritten(view, slot, erase_list, attempt, softly=softly)
            if not (deleted_rows := polled.rows_read - polled.rows_written):
                return 0
            predecessor = view.predecessor(day.date, span, replaces_whole=self._replaces_whole(kind))
            newest = view.newest_of(predecessor)
            manifest = Manifest(
                day=day,
                attempt=attempt,
                fingerprint="",
                polled=polled,
                seen=seen_publish(newest, erase_version(view.table)),
                # The source was not polled, so the lookback must treat the day as before.
                polled_at=view.polled_at(slot),
                span=span,
            )
            intent = Intent(token=attempt, run=erase_run(erase_list.version))
            publish = Publish(
                key=self.key,
                day=day,
                intent=intent,
                manifest=manifest,
                schema=self._columns_of_day(view, day.date),
                stage=self.options.root,
                kind=kind,
                on_empty="accept",
            )
            try:
                self._commit(publish, view)
            except (OvertakenError, SupersededError):
                # A concurrent publish of the day or of a later snapshot may have polled before the list existed: try
                # again.
                if not patience.wait_and_retry():
                    raise
                continue
            return deleted_rows

    def _stage_rewritten(
        self, view: LedgerView, slot: Slot, erase_list: EraseList, attempt: str, *, softly: bool
    ) -> PollResult:
        root, parts, day = Folder(self.options.root), [], Day(date=slot.day)
        for part, (folder, table, path) in enumerate(self._files_of(view, slot)):
            # A progress file before every data file: a day may take long, and a sweep must find the attempt alive.
            root.write(progress_file(attempt, part), b"{}")
            target = f"{folder}{data_file(day, attempt, part, secrets.token_hex(4))}"
            parts.append(self._copy_file(table, path, target, erase_list, softly))
        total = PollResult.total(parts)
        # A reload needs the total of erased rows, to tell them from the missing rows of a cut answer.
        find_transaction = view.finder(slot)
        counts_before = kept_out_counts(find_transaction, slot.day)
        # A measured lookback needs the late counts.
        erased_count = {"erased": counts_before.get("erased", 0) + total.counts.get("erased", 0)}
        counts = total.counts | counts_before | erased_count | late_counts(find_transaction, slot.day)
        return total.model_copy(update={"counts": counts})

    def _files_of(self, view: LedgerView, slot: Slot) -> Iterator[tuple[str, LedgerView, str]]:
        """Yield each file of a slot: its table's folder under the root, the table, and the file's path in the table.

        :raises ConfigError: another writer has put the rows of several increments into one file.
        """
        for folder, table in self._tables(view).items():
            for _, path, _ in table.files_of(slot):
                yield folder, table, path

    def _columns_of_day(self, view: LedgerView, day: dt.date) -> pa.Schema:
        return columns_of_files(view, (path for date, path, _ in view.files if date == day))

    def _replaces_whole(self, kind: SourceKind) -> bool:
        return self.options.replaces_whole(kind)

    def _commit(self, publish: Publish, view: LedgerView) -> None:
        """Publish a rewritten day.

        :param view: the version that its rows are from.
        """
        Commit(self.options, publish).run()

    def _copy_file(
        self,
        view: LedgerView,
        path: str,
        target: str,
        erase_list: EraseList,
        softly: bool,  # noqa: FBT001
    ) -> PollResult:
        folder, schema = view.folder, columns_of_files(view, [path])
        eraser = Eraser(erase_list.for_columns(schema.names), schema)
        digest, rows_read, deleted_before, deleted_rows = KeyDigest(schema), 0, 0, 0
        with RowWriter(Folder(self.options.root), target, schema) as writer:
            for _, batch in read_batches(folder.url, path, _BATCH_BYTES):
                typed_batch = batch.cast(schema)
                kept_rows = eraser.remove_rows(typed_batch)
                rows_read += batch.num_rows
                if softly:
                    deleted_before += deleted_mask(typed_batch).true_count
                    deleted_rows += deleted_mask(kept_rows).true_count
                digest.add(kept_rows)
                writer.write(kept_rows)
        rows_written = writer.file.rows if writer.file else 0
        return PollResult(
            files=(writer.file,) if writer.file else (),
            rows_read=rows_read,
            rows_written=rows_written,
            # Deleted rows are not counted: the source lacks them, so a reload does not miss them.
            counts={"erased": rows_read - rows_written - (deleted_before - deleted_rows)}
            | ({SOFT_DELETED_TOTAL: deleted_rows} if softly else {}),
            digest=digest.text,
        )


def require_published_days(view: LedgerView, published_days: Collection[dt.date]) -> None:
    """Check that all rows of a table are of published days.

    :raises ConfigError: an erase would publish a day that this stream never published.
    """
    assert view.table is not None
    unpublished = sorted({str(day) for day, _, _ in view.files if day not in published_days})
    if len(view.files) != len(view.table.file_uris()):
        unpublished.append("no day")
    if unpublished:
        raise ConfigError(
            f"table {view.folder.url} has rows of days that this stream never published "
            f"({', '.join(unpublished[:5])}). Delete them by hand first"
        )
