"""Soft deletes: a row that a snapshot no longer has stays, with its last values and two columns that say so.

``__deleted`` is true in such a row and false in every other. ``__deleted_at`` says when the source was asked that no
longer had it; it is NULL in a row that is there. A row that comes back is a row like any other.
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
    "What a snapshot does with rows that it no longer has: 'hard' deletes them, 'soft' keeps their last values with "
    "__deleted = true and __deleted_at."
)

SOFT_DELETED, RESTORED, SOFT_DELETED_TOTAL = "soft_deleted", "restored", "soft_deleted_in_all"
"""Names of counts: rows that vanished with this snapshot, deleted rows that came back, and all that are deleted."""

_COPY = "deleted"
"""What the random word in the name of a file of deleted rows begins with; a number above 0 follows, in hex."""
_DELETED_FILE = re.compile(rf"-{_COPY}([0-9a-f]{{8}})\.parquet$")


def soft_delete_problems(columns: Sequence[str], kind: SourceKind, key: str = RECORD_KEY) -> list[str]:
    """Say why rows with these columns cannot be soft-deleted; [] if they can.

    :param kind: what the source's rows are.
    :param key: the column that snapshots are compared by.
    """
    if problems := soft_kind_problems("soft", kind):
        return problems
    taken = [name for name in columns if name.lower() in MARK_COLUMNS]
    problems = [
        f"column {name!r} of the source is what deletes='soft' calls its own: rename it in the source" for name in taken
    ]
    if key not in columns:
        problems.append(
            f"deletes='soft' compares snapshots by {key}, which the source's rows do not have: give the source "
            "a key, or leave deletes out"
        )
    return problems


def soft_kind_problems(deletes: Deletes, kind: SourceKind) -> list[str]:
    """Say why rows of another kind than snapshots cannot be soft-deleted; [] if nobody wants that."""
    if deletes == "hard" or kind == "snapshot":
        return []
    return [
        f"deletes='soft' is for a source that polls all rows there are, and this one polls {_POLLED[kind]}, in which a "
        "missing row says nothing: leave deletes out, or have the source poll snapshots"
    ]


_POLLED = {"day": "days", "increment": "increments"}


def with_mark_columns(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the two columns behind its own."""
    import pyarrow as pa

    return schema.append(pa.field(DELETED, pa.bool_())).append(pa.field(DELETED_AT, pa.timestamp("us", "UTC")))


class LiveRowWriter(RowWriter):
    """Writes rows that are there, each with the two columns that say so."""

    def __init__(self, folder: Folder, path: str, schema: pa.Schema) -> None:
        super().__init__(folder, path, with_mark_columns(schema))

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch of the source's columns."""
        import pyarrow as pa

        rows = batch.num_rows
        live = pa.repeat(pa.scalar(False), rows)  # noqa: FBT003  # pyarrow's own positional
        marks = [live, pa.nulls(rows, self._schema.field(DELETED_AT).type)]
        super().write(pa.RecordBatch.from_arrays([*batch.columns, *marks], schema=self._schema))


def new_deleted_suffix() -> str:
    """Return the random word in the name of a file of deleted rows."""
    return f"{_COPY}{secrets.randbelow(0xFFFFFFFF) + 1:08x}"


def deleted_file_number(path: str) -> int | None:
    """Return the random number in the name of a file of deleted rows; None of other files."""
    found = _DELETED_FILE.search(path)
    return None if found is None else int(found[1], 16)


def deleted_mask(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Tell for each row whether it is soft-deleted: none is where the column is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if DELETED not in batch.schema.names:
        return pa.repeat(pa.scalar(False), batch.num_rows)  # noqa: FBT003  # pyarrow's own positional
    return pc.fill_null(batch.column(DELETED), False)  # noqa: FBT003
