"""Writes a table once by key, so that a table of ``write_mode="replace"`` can be merged from then on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.capabilities.publisher import RewrittenRows
from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.sinks._delta.app_transactions import DELETED_SUFFIX, app_prefix, attempt_id
from airflow_provider_connect.sinks._delta.attempt_files import merged_file_id
from airflow_provider_connect.sinks._delta.commit import flush_log, retry_until_decided
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import commit, open_table
from airflow_provider_connect.sinks._delta.merge.commit import MAX_NUMBER, file_actions, require_days
from airflow_provider_connect.sinks._delta.merge.files import MergedFiles
from airflow_provider_connect.sinks._delta.merge.matching import Decision, Matcher, PublishedFile
from airflow_provider_connect.sinks._delta.merge.row_source import KeyReader
from airflow_provider_connect.sinks._delta.merge.tombstones import (
    TombstoneWriter,
    deleted_rows,
    tombstone_schema,
    tombstones_id,
)
from airflow_provider_connect.sinks._delta.merge_rule import (
    MergeRule,
    recorded_rule,
    require_write_mode,
    rule_of,
    rule_transactions,
)
from airflow_provider_connect.sinks._delta.table import ownership_problems
from airflow_provider_connect.stage.manifest import progress_file
from airflow_provider_connect.stage.rows import first_position, open_parquet
from airflow_provider_connect.stage.storage import Folder

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sink import StreamKey
    from airflow_provider_connect.sinks._delta.options import DeltaOptions

_GENERATION = 1
"""Recorded generation of a rewrite's attempt: above 0, so that no sweep deletes its files."""


@dataclass(frozen=True)
class KeyRewrite:
    """Keeps the newest row of each key, in its day, and records the rule. All in one commit.

    The keys of the whole table are compared in rounds, so memory does not grow with the table, except one byte for each
    row.
    """

    options: DeltaOptions
    key: StreamKey

    def run(self) -> RewrittenRows:
        """Rewrite the table. Changes nothing if it is merged by the same rule.

        :raises ConfigError: the options do not merge, the table is merged by another rule, or has unsuitable columns.
        :raises DataError: rows have NULL in the key.
        """
        return retry_until_decided(self.options.path, self._try)

    def _try(self) -> RewrittenRows | None:
        rule, view = self._checked_view()
        published = [
            PublishedFile(*values)
            for values in sorted(view.file_statistics(()), key=lambda file: (file[0], first_position(file[1]), file[1]))
        ]
        rows = [_count_rows(view.folder, file.path) for file in published]
        if recorded_rule(view.app_transactions, app_prefix(self.key)) == rule:
            return RewrittenRows(sum(rows), sum(rows))
        last_day = max((file.day for file in published), default=None)
        if last_day is None:
            return RewrittenRows(0, 0)
        attempt = f"rewrite-{secrets.token_hex(8)}-{last_day:%Y%m%d}"
        view.folder.write(progress_file(attempt, 0), b"{}")  # a sweep finds the files of a killed rewrite by it
        paths = [file.path for file in published]
        decision = Matcher(view.folder, KeyReader(rule, view.column_types), last_day, paths, ()).decide()
        files = MergedFiles(view, attempt, 1 + secrets.randbelow(MAX_NUMBER), rule.key)
        try:
            removed = _rewrite_files(files, published, rows, decision)
            tombstones = _write_tombstones(files, rule, published, rows, decision)
        except BaseException:
            with suppress(ConnectError):
                files.delete()
            raise
        # From here on the log may name the files, whatever the error. Only a sweep knows, and deletes unnamed ones.
        self._commit(files, rule, removed, tombstones)
        return RewrittenRows(sum(rows), int(decision.added.sum()))

    def _checked_view(self) -> tuple[MergeRule, LedgerView]:
        import pyarrow as pa

        rule, path = rule_of(self.options), self.options.path
        if rule is None:
            raise ConfigError(
                f"the task writes {path} with write_mode='replace'. Set write_mode='merge' and key= first"
            )
        table = open_table(path)
        if table is None:
            raise ConfigError(f"table {path} does not exist, so it needs no rewrite")
        problems = ownership_problems(table, self.key, path)
        problems += rule.problems(pa.schema(table.schema().to_arrow()))
        view = LedgerView(Folder(path), table, self.key)
        if any(view.transaction(day, DELETED_SUFFIX) for day in view.days()):
            problems.append(f"table {path} has soft-deleted rows. Publish one snapshot with deletes='hard' first")
        if problems:
            raise ConfigError("; ".join(problems))
        require_days(view)
        if recorded_rule(view.app_transactions, app_prefix(self.key)) is not None:
            require_write_mode(view, rule)
        return rule, view

    def _commit(self, files: MergedFiles, rule: MergeRule, removed: list[str], tombstones: int) -> None:
        view = files.view
        assert view.table is not None
        app_transactions = rule_transactions(view, rule) | {
            attempt_id(view.key, files.attempt): _GENERATION,
            merged_file_id(view.key, files.attempt): files.number,
            tombstones_id(view): tombstones,
        }
        actions: list[Any] = file_actions(view, files.added, removed)
        commit(view.table, app_transactions, {"connect.rewritten": "by key"}, files=actions, retries=0)
        flush_log(view.folder, view.table)


def _write_tombstones(
    files: MergedFiles, rule: MergeRule, published: list[PublishedFile], rows: list[int], decision: Decision
) -> int:
    """Write the tombstones of deleted keys. Returns the number of their file, or 0."""
    if rule.delete_where is None or not decision.deletes.any():
        return 0
    schema = tombstone_schema(rule, files.view.column_types)

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        for file, count in zip(published, rows, strict=True):
            flags = decision.deletes[start : start + count]
            yield from deleted_rows(files.view, [file.path], flags, schema, file.day)
            start += count

    return TombstoneWriter(files.view, files.attempt, schema).write(batches())


def _rewrite_files(
    files: MergedFiles, published: list[PublishedFile], rows: list[int], decision: Decision
) -> list[str]:
    """Write the files with rows to drop. Returns the paths of their old versions."""
    import numpy as np

    removed, start = [], 0
    for file, count in zip(published, rows, strict=True):
        keep = decision.added[start : start + count]
        start += count
        if not keep.all():
            files.rewrite(file, np.packbits(~keep))
            removed.append(file.path)
    return removed


def _count_rows(folder: Folder, path: str) -> int:
    with open_parquet(folder, path) as file:
        return int(file.metadata.num_rows)
