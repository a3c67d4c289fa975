"""Takes people's rows out of a Delta table: the erase list first, then day after day, each as a new generation."""

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
from airflow_provider_connect.stage.storage import Folder, storage_error
from airflow_provider_connect.values.arrow import is_text
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

ERASE_PREFIX = "erase"
"""How the names of its attempts begin; a task's begin with a token, which is hex."""
_BATCH_BYTES = 8 * 1024 * 1024
_TRIES = 20
_PAUSES = doubling_pauses(0.05, 2.0)


@dataclass(frozen=True)
class DeltaEraser:
    """Erases from one stream's table, or from all tables of its template (:mod:`.tables.eraser`), by one column.

    If an attempt is killed, its list and its finished days stay. The next attempt does the rest.
    """

    options: DeltaOptions
    key: StreamKey
    column: str

    def count_rows(self, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows with these values, by day."""
        view = self._view()
        self._require_values(view, values)
        return self._found(view, EraseList().with_values(self.column, values))

    def erase(self, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest) -> Erasure:
        """Put values on the list, and take the rows of all on the list out of every day."""
        view = self._view()
        self._require_values(view, values)
        # What cannot be erased from is found before the list is longer.
        self._tables(view)
        if self.options.replaces_whole(kind):
            require_only_newest_snapshot(view)
        erased = self._listed(values, shaping)
        rows: dict[dt.date, int] = {}
        for day in self._found(self._view(), erased):
            rows[day] = self._rewrite(Day(date=day), erased, kind)
        return Erasure(self.options.path, self.column, len(set(values)), rows, erased.version)

    def _view(self) -> LedgerView:
        """Return the newest version of the table.

        :raises ConfigError: there is none, it belongs to another stream, or it has no such column.
        """
        path = self.options.path
        table = open_table(path)
        if table is None:
            raise ConfigError(f"there is no table {path}: nothing can be erased from it")
        self._require_own(table, path)
        view = LedgerView(Folder(path), table, self.key)
        require_published_days(view, set(view.days()))
        return view

    def _require_own(self, table: DeltaTable, path: str, template: str | None = None) -> None:
        """Check that a table belongs to this stream, and has the column with the ids.

        :raises ConfigError: the table belongs to another stream, or the column is missing or has another type.
        """
        import pyarrow as pa

        problems = ownership_problems(table, self.key, path, template)
        schema = pa.schema(table.schema().to_arrow())
        if self.column not in schema.names:
            problems.append(f"table {path} has no column {self.column!r}; {suggest_nearest(self.column, schema.names)}")
        elif (problem := id_type_problem(schema.field(self.column).type)) is not None:
            problems.append(f"table {path}: column {self.column!r} {problem}")
        if problems:
            raise ConfigError("; ".join(problems))

    def _require_values(self, view: LedgerView, values: Sequence[str]) -> None:
        import pyarrow as pa

        assert view.table is not None
        kind = pa.schema(view.table.schema().to_arrow()).field(self.column).type
        if not is_text(kind):
            require_integers(values, self.column, str(kind))

    def _tables(self, view: LedgerView) -> Mapping[str, LedgerView]:
        """Return every table with the stream's rows, by its path under the stage's root."""
        return {"": view}

    def _listed(self, values: Sequence[str], shaping: ShapingDigest) -> EraseList:
        """Put values on the table's list; return the list that has them all."""
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            view = self._view()
            assert view.table is not None
            listed = read_erase_list(view.folder, view.table)
            longer = listed.with_values(self.column, values, shaping)
            if longer is listed:
                return listed
            try:
                write_erase_list(view.folder, view.table, longer)
                make_durable(view.folder, view.table)
            except delta_errors() as error:
                # It may have landed nevertheless: the next turn reads the list first.
                if not is_lost_race(error) or not patience.wait_and_retry():
                    raise storage_error(self.options.path, error) from error

    def _found(self, view: LedgerView, erased: EraseList) -> dict[dt.date, int]:
        rows: dict[dt.date, int] = {}
        by_column = erased.for_columns([self.column])
        for table in self._tables(view).values():
            for day, path, _ in table.files:
                for batch in self._column(table.folder, path):
                    if count := Eraser(by_column, batch.schema).erased_mask(batch).true_count:
                        rows[day] = rows.get(day, 0) + count
        return dict(sorted(rows.items()))

    def _column(self, folder: Folder, path: str) -> Iterator[pa.RecordBatch]:
        """Yield one column of a file; nothing if the file is older than the column."""
        with open_parquet(folder, path) as file:
            if self.column in file.schema_arrow.names:
                yield from file.iter_batches(columns=[self.column])

    def _rewrite(self, day: Day, erased: EraseList, kind: SourceKind) -> int:
        """Publish a day without the rows of the erased; return how many that were."""
        patience = Patience(pauses=_PAUSES, jitter=FROM_NONE, tries=_TRIES)
        while True:
            view = self._view()
            attempt = f"{ERASE_PREFIX}{erased.version}-{secrets.token_hex(8)}-{day.date:%Y%m%d}"
            # The table may hold deleted rows although its next snapshot is to delete them hard.
            softly = self.options.deletes_softly(kind) or bool(view.transaction(day.date, DELETED_SUFFIX))
            polled = self._staged(view, day, erased, attempt, softly=softly)
            if not (gone := polled.rows_read - polled.rows_written):
                return 0
            before = view.predecessor_day(day.date, kind, replaces_whole=self.options.replaces_whole(kind))
            newest = view.newest(before)
            manifest = Manifest(
                day=day,
                attempt=attempt,
                fingerprint="",
                polled=polled,
                seen=seen_publish(newest, erase_version(view.table)),
                # The source was not asked: whether to look back at the day must not change.
                polled_at=view.polled_at(day.date),
                span=view.spans.get(day.date),
            )
            intent = Intent(token=attempt, run=erase_run(erased.version))
            publish = Publish(
                key=self.key,
                day=day,
                intent=intent,
                manifest=manifest,
                schema=self._columns(view, day.date),
                stage=self.options.root,
                kind=kind,
                on_empty="accept",
            )
            try:
                self._commit(publish)
            except (OvertakenError, SupersededError):
                # Who published meanwhile, the day or a later snapshot, may have polled before the list was there: look
                # again.
                if not patience.wait_and_retry():
                    raise
                continue
            return gone

    def _staged(self, view: LedgerView, day: Day, erased: EraseList, attempt: str, *, softly: bool) -> PollResult:
        """Write a day's rows anew, file by file, without those of the erased."""
        root, parts = Folder(self.options.root), []
        for part, (folder, table, path) in enumerate(self._files(view, day.date)):
            # A sign of life comes before every file: a sweep must find one beside each, and a day may take long.
            root.write(progress_file(attempt, part), b"{}")
            target = f"{folder}{data_file(day, attempt, part, secrets.token_hex(4))}"
            parts.append(self._copied(table, path, target, erased, softly))
        total = PollResult.total(parts)
        # A reload must find how many rows are kept out in all, or it would take a cut answer for the work of an erase.
        before = kept_out_counts(view.transaction, day.date)
        # How late the rows came must stay known, too: a measured lookback goes by it.
        erased_now = {"erased": before.get("erased", 0) + total.counts.get("erased", 0)}
        counts = total.counts | before | erased_now | late_counts(view.transaction, day.date)
        return total.model_copy(update={"counts": counts})

    def _files(self, view: LedgerView, day: dt.date) -> Iterator[tuple[str, LedgerView, str]]:
        """Yield the files of a day: the folder of their table under the root, the table, and the path in it."""
        for folder, table in self._tables(view).items():
            for date, path, _ in table.files:
                if date == day:
                    yield folder, table, path

    def _columns(self, view: LedgerView, day: dt.date) -> pa.Schema:
        """Return the columns of a day's files."""
        return columns_of_files(view, (path for date, path, _ in view.files if date == day))

    def _commit(self, publish: Publish) -> None:
        Commit(self.options, publish).run()

    def _copied(self, view: LedgerView, path: str, target: str, erased: EraseList, softly: bool) -> PollResult:  # noqa: FBT001
        folder, schema = view.folder, columns_of_files(view, [path])
        eraser = Eraser(erased.for_columns(schema.names), schema)
        digest, read, was_deleted, deleted = KeyDigest(schema), 0, 0, 0
        with RowWriter(Folder(self.options.root), target, schema) as writer:
            for _, batch in read_batches(folder.url, path, _BATCH_BYTES):
                typed = batch.cast(schema)
                kept = eraser.remove_rows(typed)
                read += batch.num_rows
                if softly:
                    was_deleted += deleted_mask(typed).true_count
                    deleted += deleted_mask(kept).true_count
                digest.add(kept)
                writer.write(kept)
        written = writer.file.rows if writer.file else 0
        return PollResult(
            files=(writer.file,) if writer.file else (),
            rows_read=read,
            rows_written=written,
            # The source has not those that were deleted, so that a reload will not miss them.
            counts={"erased": read - written - (was_deleted - deleted)}
            | ({SOFT_DELETED_TOTAL: deleted} if softly else {}),
            digest=digest.text,
        )


def require_published_days(view: LedgerView, published_days: Collection[dt.date]) -> None:
    """Check that all rows of a table belong to published days.

    :raises ConfigError: the table has rows of an unpublished day, and an erase would publish that day.
    """
    assert view.table is not None
    strange = sorted({str(day) for day, _, _ in view.files if day not in published_days})
    if len(view.files) != len(view.table.file_uris()):
        strange.append("no day")
    if strange:
        raise ConfigError(
            f"table {view.folder.url} has rows of days that this stream never published ({', '.join(strange[:5])}): "
            "delete them by hand first"
        )
