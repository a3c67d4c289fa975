"""Soft deletes: rows that vanish from a snapshot stay, with their last values and two mark columns.

``__deleted`` is true in a vanished row. ``__deleted_at`` is the poll time of the first snapshot without the row, NULL
in live rows.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

Deletes = Literal["hard", "soft"]

DELETED, DELETED_AT = "__deleted", "__deleted_at"
MARK_COLUMNS = (DELETED, DELETED_AT)

DELETES_HELP = (
    "Effect of a snapshot on rows that it lacks: 'hard' deletes them, 'soft' keeps their last values with "
    "__deleted = true and __deleted_at."
)

SOFT_DELETED, RESTORED, SOFT_DELETED_TOTAL = "soft_deleted", "restored", "soft_deleted_in_all"
"""Names of counts: rows that vanished with this snapshot, deleted rows that returned, and all deleted rows."""

_COPY = "deleted"
"""Start of the random suffix in a file name of deleted rows."""
_DELETED_FILE = re.compile(rf"-{_COPY}([0-9a-f]{{8}})\.parquet$")


def soft_delete_problems(columns: Sequence[str], kind: SourceKind, key: str = RECORD_KEY) -> list[str]:
    """Return why rows with these columns cannot be soft-deleted, or []."""
    if problems := soft_kind_problems("soft", kind):
        return problems
    reserved_names = [name for name in columns if name.lower() in MARK_COLUMNS]
    problems = [
        f"column {name!r} of the source has a name that deletes='soft' needs. Rename it in the source"
        for name in reserved_names
    ]
    if key not in columns:
        problems.append(
            f"deletes='soft' compares snapshots by {key}, but the source's rows have none. Give the source "
            "a key, or leave deletes out"
        )
    return problems


def soft_kind_problems(deletes: Deletes, kind: SourceKind) -> list[str]:
    """Return why this kind of source cannot have soft deletes, or []."""
    if deletes == "hard" or kind == "snapshot":
        return []
    return [
        f"deletes='soft' needs a source of snapshots. This one polls {_POLLED[kind]}, where a row may be missing "
        "without a delete. Leave deletes out, or let the source poll snapshots"
    ]


_POLLED = {"day": "days", "increment": "increments"}


def with_mark_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the two mark columns at its end."""
    import pyarrow as pa

    return schema.append(pa.field(DELETED, pa.bool_())).append(pa.field(DELETED_AT, pa.timestamp("us", "UTC")))


class LiveRowWriter(RowWriter):
    """Writes rows with mark columns that mark them as live."""

    def __init__(self, folder: Folder, path: str, schema: pa.Schema) -> None:
        super().__init__(folder, path, with_mark_columns(schema))

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch with the source's columns."""
        import pyarrow as pa

        rows = batch.num_rows
        live = pa.repeat(pa.scalar(False), rows)  # noqa: FBT003  # pyarrow's own positional
        marks = [live, pa.nulls(rows, self._schema.field(DELETED_AT).type)]
        super().write(pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=self._schema))


def new_deleted_suffix() -> str:
    """Return a random suffix for a file name of deleted rows."""
    return f"{_COPY}{secrets.randbelow(0xFFFFFFFF) + 1:08x}"


def deleted_file_number(path: str) -> int | None:
    """Return the number in a file name of deleted rows. None for other files."""
    match = _DELETED_FILE.search(path)
    return None if match is None else int(match[1], 16)


def deleted_mask(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Return for each row whether it is soft-deleted. All False without mark columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if DELETED not in batch.schema.names:
        return pa.repeat(pa.scalar(False), batch.num_rows)  # noqa: FBT003  # pyarrow's own positional
    return pc.fill_null(batch.column(DELETED), False)  # noqa: FBT003
