"""Detects what others do to a stream's Delta table: changed days, rows to keep, a log written without a lock."""

from __future__ import annotations

import datetime as dt
import os

from airflow_provider_connect.errors import ConfigError
from airflow_provider_connect.sinks._delta.app_transactions import DELETED_SUFFIX
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.stage.manifest import DATA_FILE_PATTERN

_SHOWN = 5
# Operations in Delta's history that change rows; others, such as OPTIMIZE, only move them.
_CHANGES_ROWS = {"WRITE", "DELETE", "UPDATE", "MERGE", "RESTORE", "STREAMING UPDATE", "TRUNCATE"}


def describe_foreign_changes(view: LedgerView) -> str | None:
    """Say which published days somebody else has changed; None if no change is found.

    The row counts of the files are compared with the ledger. Foreign files with the right count are a change only if
    the history has a foreign commit that changes rows; otherwise they come from a compaction. Days that a snapshot of
    the whole has replaced have no rows.
    """
    foreign_writes = any(c.get("operation") in _CHANGES_ROWS and not _is_ours(c) for c in view.commits)
    rows: dict[dt.date, int] = {}
    others = set()
    for date, path, count in view.files:
        rows[date] = rows.get(date, 0) + (count or 0)
        if not DATA_FILE_PATTERN.fullmatch(path):
            others.add(date)
    changed = []
    for date in view.days():
        if not rows.get(date) and date < view.last_snapshot_day:
            continue
        there = rows.get(date, 0) - (view.transaction(date, DELETED_SUFFIX) or 0)
        published = view.transaction(date, "/rows") or 0
        if published != there:
            changed.append(f"{date} (published {published:,} rows, now has {there:,})")
        elif date in others and foreign_writes:
            changed.append(f"{date} (has foreign files)")
    if not changed:
        return None
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    return (
        f"somebody else changed published days: {', '.join(changed[:_SHOWN])}{more}; they still count as "
        "done: clear their tasks to load them again, or leave them as they are"
    )


def require_only_newest_snapshot(view: LedgerView) -> None:
    """Check that the table holds no rows but those of the newest published snapshot, which the next one replaces.

    :raises ConfigError: a snapshot would delete rows that were kept on purpose, or that this stream never published.
    """
    newest = max(view.days(), default=None)
    others = sorted({date for date, _, _ in view.files if date != newest})
    if view.table is None or (not others and len(view.files) == len(view.table.file_uris())):
        return
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    found = f"of {', '.join(map(str, others[:_SHOWN]))}{more}" if others else "without a day"
    kept = f"the newest snapshot ({newest})" if newest else "those of a published snapshot"
    raise ConfigError(
        f"table {view.folder.url} holds rows {found} besides {kept}, and snapshot='replace' would delete them: set "
        "snapshot='daily' to keep the snapshot of each day, choose another path, or delete those rows by hand first"
    )


def _is_ours(commit: dict[str, object]) -> bool:
    return any(str(name).startswith("connect.") for name in commit)


_TRUE = ("1", "true", "on", "yes", "y")
"""What delta-rs takes for true, in any case: ``str_is_truthy`` of its crate ``deltalake_core`` (2026-11)."""


def locking_problems(path: str) -> list[str]:
    """Return the environment settings that let two writers overwrite each other's commits; [] if none does."""
    if not path.startswith("s3://"):
        return []
    found = {name.upper(): value.strip().lower() for name, value in os.environ.items()}
    unsafe = [n for n in ("AWS_S3_ALLOW_UNSAFE_RENAME", "ALLOW_UNSAFE_RENAME") if found.get(n) in _TRUE]
    disabled = [n for n in ("AWS_CONDITIONAL_PUT", "CONDITIONAL_PUT") if found.get(n) == "disabled"]
    return [
        f"{name}={found[name]!r} in the environment lets two runs overwrite each other's commits to {path} and lose "
        "days: unset it, and use a store with conditional writes (If-None-Match)"
        for name in unsafe + disabled
    ]
