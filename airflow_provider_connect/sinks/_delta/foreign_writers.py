"""Detects risks from other writers: changed days, rows to keep, overwritten commits."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._delta.app_transactions import DELETED_SUFFIX, app_prefix
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.merge_rule import recorded_rule
from airflow_provider_connect.stage.manifest import DATA_FILE_PATTERN

_SHOWN = 5
# Operations in Delta's history that change rows. Others, such as OPTIMIZE, only move them.
_CHANGES_ROWS = {"WRITE", "DELETE", "UPDATE", "MERGE", "RESTORE", "STREAMING UPDATE", "TRUNCATE"}


def describe_foreign_changes(view: LedgerView) -> str | None:
    """Describe the published days that another writer has changed, or return None.

    A day is changed if its files' rows differ from the ledger's. With the right number of rows, another writer's files
    are taken for a compaction, unless the log has another writer's change of rows. Days before the last snapshot of the
    whole table may be empty.
    """
    foreign_writes = any(c.get("operation") in _CHANGES_ROWS and not _is_ours(c) for c in view.commits)
    rows: dict[dt.date, int] = {}
    dates_with_foreign_files = set()
    for date, path, count in view.files:
        rows[date] = rows.get(date, 0) + (count or 0)
        if not DATA_FILE_PATTERN.fullmatch(path):
            dates_with_foreign_files.add(date)
    if recorded_rule(view.app_transactions, app_prefix(view.key)) is not None:
        return _describe_foreign_files(dates_with_foreign_files) if foreign_writes else None
    changed = []
    for date in view.days():
        if not rows.get(date) and date < view.last_snapshot_day:
            continue
        live_rows = rows.get(date, 0) - (view.transaction(date, DELETED_SUFFIX) or 0)
        published_rows = view.published_rows(date)
        if published_rows != live_rows:
            changed.append(f"{date} (published {published_rows:,} rows, now has {live_rows:,})")
        elif date in dates_with_foreign_files and foreign_writes:
            changed.append(f"{date} (has foreign files)")
    if not changed:
        return None
    suffix = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return (
        f"another writer changed published days: {', '.join(changed[:_SHOWN])}{suffix}. They still count as "
        "done. Clear their tasks to load them again, or leave them as they are"
    )


def _describe_foreign_files(days: Collection[dt.date]) -> str | None:
    if not days:
        return None
    suffix = f" and {len(days) - _SHOWN} more" if len(days) > _SHOWN else ""
    return (
        f"another writer changed published days: {', '.join(map(str, sorted(days)[:_SHOWN]))}{suffix} (has foreign "
        "files). Its rows must have a key that no other row has"
    )


def require_only_newest_snapshot(view: LedgerView) -> None:
    """Check that the table holds only rows of the newest snapshot.

    :raises ConfigError: the next snapshot would delete rows of other days, or rows that this stream never published.
    """
    newest = max(view.days(), default=None)
    other_days = sorted({date for date, _, _ in view.files if date != newest})
    if view.table is None or (not other_days and len(view.files) == len(view.table.file_uris())):
        return
    suffix = f" and {len(other_days) - _SHOWN} more" if len(other_days) > _SHOWN else ""
    row_days = f"of {', '.join(map(str, other_days[:_SHOWN]))}{suffix}" if other_days else "without a day"
    kept_rows = f"the newest snapshot ({newest})" if newest else "those of a published snapshot"
    raise ConfigError(
        f"table {view.folder.url} holds rows {row_days} besides {kept_rows}, and snapshot='replace' would delete "
        "them. Set snapshot='daily' to keep the snapshot of each day, choose another path, or "
        "delete those rows by hand first"
    )


def _is_ours(commit: dict[str, object]) -> bool:
    return any(str(name).startswith("connect.") for name in commit)


_TRUE = ("1", "true", "on", "yes", "y")
"""Texts that delta-rs takes for true in any case: ``str_is_truthy`` of ``deltalake_core`` (2026-11)."""


def locking_problems(path: str) -> list[str]:
    """Return a problem for each environment variable that lets two writers overwrite each other's commits."""
    if not path.startswith("s3://"):
        return []
    environment = {name.upper(): value.strip().lower() for name, value in os.environ.items()}
    unsafe = [n for n in ("AWS_S3_ALLOW_UNSAFE_RENAME", "ALLOW_UNSAFE_RENAME") if environment.get(n) in _TRUE]
    disabled = [n for n in ("AWS_CONDITIONAL_PUT", "CONDITIONAL_PUT") if environment.get(n) == "disabled"]
    return [
        f"{name}={environment[name]!r} in the environment lets two runs overwrite each other's commits to {path} and "
        "lose days. Unset it, and use a store with conditional writes (If-None-Match)"
        for name in unsafe + disabled
    ]
