"""Publishes days into one Delta table or several. Staged files become the tables' files, so no ``put`` sends rows."""

from __future__ import annotations

import datetime as dt
import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.publisher import (
    Confirms,
    Erases,
    InspectsTarget,
    KeepsNotes,
    KeepsRejects,
    RewritesByKey,
    RewrittenRows,
    Sweeps,
    TellsDifferences,
)
from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sink import LedgerRow, Publish, Publisher, StreamKey
from airflow_provider_connect.sinks._delta.commit import Commit, Confirmation
from airflow_provider_connect.sinks._delta.definitions import write_note
from airflow_provider_connect.sinks._delta.eraser import DeltaEraser
from airflow_provider_connect.sinks._delta.foreign_writers import (
    describe_foreign_changes,
    locking_problems,
    require_only_newest_snapshot,
)
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import make_durable
from airflow_provider_connect.sinks._delta.merge.commit import MergeCommit, require_days
from airflow_provider_connect.sinks._delta.merge.eraser import MergeEraser
from airflow_provider_connect.sinks._delta.merge.rewrite import KeyRewrite
from airflow_provider_connect.sinks._delta.merge.tombstones import unused_tombstones
from airflow_provider_connect.sinks._delta.merge_rule import require_write_mode, rule_of
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.sinks._delta.rejects import rejects_of
from airflow_provider_connect.sinks._delta.soft_deletes import require_published_keys
from airflow_provider_connect.sinks._delta.stream_ledger import DeltaLedger
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.sinks._delta.table import (
    create_table,
    delta_columns,
    merge_columns,
    ownership_problems,
    probe_root,
    require_writable,
    soft_delete_columns,
)
from airflow_provider_connect.sinks._delta.widening import Widening
from airflow_provider_connect.stage.differences import Differences, compare_states
from airflow_provider_connect.stage.erase_list import Erasure, ShapingDigest, no_shaping
from airflow_provider_connect.stage.manifest import CONTROL_FOLDER, MANIFEST_NAME
from airflow_provider_connect.stage.notes import LedgerNote
from airflow_provider_connect.stage.rejects import DayRejects
from airflow_provider_connect.stage.soft_deletes import soft_delete_problems, with_mark_columns
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.temporary import describe_polled_copies
from airflow_provider_connect.window import Day, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

_LOG = logging.getLogger(__name__)


class LakePublisher(Publisher, Erases, InspectsTarget, KeepsNotes, KeepsRejects, Sweeps):
    """Publishes one stream into a single table, or into the tables of a template (:mod:`.tables`)."""

    def __init__(self, options: DeltaOptions, key: StreamKey) -> None:
        self._options = options
        self._key = key

    @property
    @abstractmethod
    def ledger(self) -> DeltaLedger:
        """The ledger, in the log of the single table or of the head (the template's table for the ledger)."""

    def note(self, note: LedgerNote) -> None:
        """Write a note into a file beside the table."""
        write_note(Folder(self._options.ledger_path), note)

    def preflight(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return the problems that would fail the publish. Without problems, creates the missing table or head."""
        return self._publish_problems(schema, kind, creates=True)

    def inspect(self, schema: pa.Schema, days: Sequence[Day], kind: SourceKind) -> list[str]:
        """Return the problems that would fail the publish. Does not test an object store's permissions."""
        return self._publish_problems(schema, kind, creates=False)

    def _publish_problems(self, schema: pa.Schema, kind: SourceKind, *, creates: bool) -> list[str]:
        """Return the problems that would fail the publish.

        :param creates: create the missing table or head, and try to write.
        """
        options, path = self._options, self._options.ledger_path
        template = options.tables.template if options.tables is not None else None
        try:
            if problems := self._problems(schema, kind):
                return problems
            columns = delta_columns(schema)
            if not creates:
                require_writable(options.root)
            if (table := self.ledger.view().table) is None:
                if not creates:
                    return []
                probe_root(options.root)
                table = create_table(
                    path, self._key, with_mark_columns(schema) if options.deletes == "soft" else schema, template
                )
            if problems := ownership_problems(table, self._key, path, template):
                return problems
            # The head has the columns of all tables.
            type_change = options.type_change(kind)
            fields = merge_columns(
                table,
                columns,
                options.schema_contract,
                path,
                soft_delete_columns() if options.deletes == "soft" else {},
                type_change=type_change,
            )
            widening = Widening(LedgerView(Folder(path), table, self._key), fields)
            if type_change == "wider" and widening.is_needed:
                text = widening.describe(options.widen_up_to)
                _LOG.log(logging.WARNING if creates else logging.INFO, "%s", text)
            if creates:
                probe_root(options.root)
                make_durable(Folder(path), table)
            self._check_published_rows(table, kind, warns=creates)
        except (ConfigError, DataError) as error:
            return [str(error)]
        return []

    @abstractmethod
    def _problems(self, schema: pa.Schema, kind: SourceKind) -> list[str]:
        """Return the problems of options, schema and environment."""

    @abstractmethod
    def _check_published_rows(self, table: DeltaTable, kind: SourceKind, *, warns: bool) -> None:
        """Raise ConfigError if the publish would delete published rows or could not compare them.

        :param warns: also log other writers' changes.
        """

    def find(self, column: str, values: Sequence[str]) -> dict[dt.date, int]:
        """Count the rows that :meth:`erase` would delete, by day."""
        return self._eraser(column).count_rows(values)

    def erase(
        self, column: str, values: Sequence[str], kind: SourceKind, shaping: ShapingDigest = no_shaping
    ) -> Erasure:
        """Delete people's rows: rewrites all files of each day with such rows.

        Older versions and a day's rejects may still hold them.
        """
        return self._eraser(column).erase(values, kind, shaping)

    @abstractmethod
    def _eraser(self, column: str) -> DeltaEraser: ...

    def rejects(self, first: dt.date, last: dt.date, records: int) -> Iterator[DayRejects]:
        """Yield each published day's rejected records of the source."""
        return rejects_of(self.ledger.view(), Folder(self._options.root), first, last)

    def sweep(self) -> int:
        """Delete unpublished files of attempts that have been silent for ``sweep_after``."""
        return self._sweeper(self._options.sweep_after).run()

    def leftovers(self) -> list[str]:
        """Return the unpublished files that :meth:`sweep` would delete."""
        return self._sweeper(self._options.sweep_after).list_files()

    @abstractmethod
    def _sweeper(self, silent_for: dt.timedelta) -> Sweeper: ...

    def copies(self) -> list[str]:
        """Describe the places that may still hold people's rows, and how to clear each.

        These are older versions, unpublished staged days, days polled for a transform, rejects and manifests.
        """
        options = self._options
        root, tables = Folder(options.root), options.path if options.tables is None else f"{options.root}/*"
        unpublished = self._sweeper(dt.timedelta(0)).list_files()
        attempts = [entry.name for entry in root.files(f"{CONTROL_FOLDER}/attempts")]
        rejects = sum("/rejects-" in name for name in attempts)
        manifests = sum(name.endswith(f"/{MANIFEST_NAME}") for name in attempts)
        places = []
        if rejects:
            places.append(
                f"rejects ({rejects:,} times {root.url}/{CONTROL_FOLDER}/attempts/*/rejects-*.parquet). No column "
                "names the person of a rejected record. Delete the records of erased people by hand"
            )
        if unpublished:
            places.append(
                f"unpublished staged days ({len(unpublished):,} files under {root.url}). No "
                "load publishes them. 'airflow connect sweep' deletes them "
                f"{options.sweep_after / dt.timedelta(hours=1):g} hours after their attempt's last write"
            )
        places += describe_polled_copies(root)
        if manifests:
            places.append(
                f"manifests ({manifests:,} times {root.url}/{CONTROL_FOLDER}/attempts/*/{MANIFEST_NAME}). "
                "They hold each file's smallest and largest numbers. If ids are numbers, delete the manifests of "
                "published days by hand"
            )
        places.append(
            f"older versions of {tables}, and the log, which holds each file's smallest and largest numbers. VACUUM "
            "deletes the files after the table's retention time, and Delta deletes log entries after 30 days"
        )
        return places


class DeltaPublisher(LakePublisher, Confirms, RewritesByKey, TellsDifferences):
    """Publishes one stream into one table."""

    @property
    def ledger(self) -> DeltaLedger:
        """The ledger in the table's log."""
        return DeltaLedger(self._options, self._key)

    def _problems(self, schema: pa.Schema, kind: SourceKind) -> list[str]:
        if problems := locking_problems(self._options.path):
            return problems
        delta_columns(schema)  # raises for columns that Delta cannot hold
        if (rule := rule_of(self._options)) is not None:
            return [f"table {self._options.path}: {problem}" for problem in rule.problems(schema)]
        return soft_delete_problems(schema.names, kind) if self._options.deletes == "soft" else []

    def _check_published_rows(self, table: DeltaTable, kind: SourceKind, *, warns: bool) -> None:
        view, rule = LedgerView(Folder(self._options.path), table, self._key), rule_of(self._options)
        require_write_mode(view, rule)
        if rule is not None:
            require_days(view)
        elif self._options.replaces_whole(kind):
            require_only_newest_snapshot(view)
        if self._options.deletes == "soft":
            require_published_keys(view)
        if warns and (changes := describe_foreign_changes(view)):
            _LOG.warning("table %s: %s", self._options.path, changes)

    def differences(self, publish: Publish) -> Differences | None:
        """Compare a day's staged files with the table's files of the day.

        Returns None for a merge, and if the day was published again since the poll: the commit will refuse the publish.
        """
        view = self.ledger.view()
        if self._options.write_mode == "merge":  # the day's rows may have newer versions in other days
            return None
        slot = view.slot_for(publish.day.date, publish.manifest.span)
        if (view.transaction(slot.day, slot.suffix) or 0) != publish.manifest.seen.generation:
            return None
        live_paths = [path for _, path, _ in view.files_of(slot)]
        staged_paths = [file.path for file in publish.manifest.polled.files]
        live_only = self._options.deletes_softly(publish.kind)
        return compare_states(view.folder, live_paths, staged_paths, publish.schema, live_only=live_only)

    def commit(self, publish: Publish, token: Any, receipts: list[Any]) -> LedgerRow:
        """Replace or merge the day, or the whole table, and write the ledger row, in one commit."""
        if self._options.write_mode == "merge":
            return MergeCommit(self._options, publish).run()
        return Commit(self._options, publish).run()

    def sweep(self) -> int:
        """Delete unpublished files of silent attempts, and replaced tombstones."""
        swept_files, view = super().sweep(), self.ledger.view()
        unused = unused_tombstones(view)
        for path in unused:
            view.folder.delete(path)
        return swept_files + len(unused)

    def leftovers(self) -> list[str]:
        """Return the files that :meth:`sweep` would delete."""
        return [*super().leftovers(), *unused_tombstones(self.ledger.view())]

    def confirm(self, publish: Publish) -> LedgerRow:
        """Record that the day is unchanged, in a commit without files."""
        return Confirmation(self._options, publish).run()

    def rewrite_by_key(self) -> RewrittenRows:
        """Keep the newest row of each key, in one commit."""
        return KeyRewrite(self._options, self._key).run()

    def _eraser(self, column: str) -> DeltaEraser:
        eraser = MergeEraser if self._options.write_mode == "merge" else DeltaEraser
        return eraser(self._options, self._key, column)

    def _sweeper(self, silent: dt.timedelta) -> Sweeper:
        return Sweeper(Folder(self._options.path), self._key, silent)
