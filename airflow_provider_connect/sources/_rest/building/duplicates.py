"""Detects records that differ from an earlier record with their key, and would be lost as duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import record_keys
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.records import DOCUMENT, RECORD_KEY, Records

if TYPE_CHECKING:
    import pyarrow as pa

DIFFERING_DUPLICATES = "differing_duplicates"
"""Name of the count of duplicates that differ from the loaded row."""
_LIMIT_BYTES = 16 << 20


class DifferingRecordsError(RetriableError):
    """Records of one key differ. If one changed during the poll, the next poll succeeds."""


def content_hashes(records: Records, columns: Mapping[str, pa.Array]) -> bytes:
    """Return 16 bytes for each record, equal if ``record_key`` and all declared columns are equal.

    Not ``document``: a field that changes with each answer would make all records differ.
    """
    import pyarrow as pa

    def as_number(column: pa.Array) -> pa.Array:
        # The text of a time takes longer than its hash.
        return column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column

    names = [name for name in records.columns if name not in records.key]
    return record_keys("", [as_number(columns[name]) for name in (RECORD_KEY, *names)])


class DuplicateCheck:
    """Checks the duplicates of a poll by ``records.on_duplicate``.

    :param stack: closes the key sets.
    """

    def __init__(self, options: RestOptions, stack: ExitStack) -> None:
        self._records = options.records
        self._siblings = SiblingCheck.for_options(options, stack)
        has_other_columns = bool(options.records.columns.keys() - set(options.records.key))
        is_needed = has_other_columns and not options.records.keeps_later_version
        self._contents = stack.enter_context(KeySet(_LIMIT_BYTES)) if is_needed else None

    def start_parent(self) -> None:
        """Start the next parent's records."""
        if self._siblings is not None:
            self._siblings.start_parent()

    def count_differing(self, columns: Mapping[str, pa.Array], is_kept: Any, is_new_key: Any, label: str) -> int:
        """Return the number of duplicates that differ from earlier rows. 0 if a later version counts.

        :param is_kept: mask of the rows, duplicates included.
        :param is_new_key: mask of the kept records with a new key.
        :raises DifferingRecordsError: a duplicate differs, and ``on_duplicate`` is ``fail``.
        """
        import pyarrow as pa

        if not len(is_new_key):
            return 0
        if self._siblings is not None:
            self._siblings.require_no_lost_records(columns, is_kept, is_new_key, label)
        if self._contents is None:
            return 0
        if not is_kept.all():
            columns = {name: column.filter(pa.array(is_kept)) for name, column in columns.items()}
        is_new_content = self._contents.add_keys(content_hashes(self._records, columns))
        differing = int((is_new_content & ~is_new_key).sum())
        if differing and self._records.on_duplicate == "fail":
            raise DifferingRecordsError(
                f"{label}: {differing:,} records have the key of an earlier record and differ from it in a declared "
                "column. They would be lost as duplicates. Add the column that tells them apart to records.key. If "
                "they are versions of one record, set records.on_duplicate to 'first', 'last' or newest_by"
            )
        return differing


class SiblingCheck:
    """Fails a poll that would drop a record because a different record of another parent has its key.

    :param stack: closes the key sets.
    """

    def __init__(self, options: RestOptions, stack: ExitStack) -> None:
        records = options.records
        self._names = [name for name in records.columns if name not in records.key]
        self._names += [DOCUMENT] if records.undeclared == "json" else []
        self._names += [column.name for column in options.resolved_parent_columns]
        self._contents = stack.enter_context(KeySet(_LIMIT_BYTES))
        self._keys_by_parent = stack.enter_context(KeySet(_LIMIT_BYTES))
        self._parent = 0

    @classmethod
    def for_options(cls, options: RestOptions, stack: ExitStack) -> SiblingCheck | None:
        """Return a check if the stream has parents, no parent column in its key and no ``on_duplicate``."""
        is_needed = (
            options.has_parents
            and options.records.on_duplicate == "fail"
            and not set(options.parent_columns) & set(options.records.key)
        )
        return cls(options, stack) if is_needed else None

    def start_parent(self) -> None:
        """Start the next parent's records."""
        self._parent += 1

    def require_no_lost_records(
        self, columns: Mapping[str, pa.Array], is_kept: Any, is_new_key: Any, label: str
    ) -> None:
        """Check that every dropped duplicate equals the record of another parent.

        :raises DifferingRecordsError: a record differs.
        """
        import pyarrow as pa

        names = (RECORD_KEY, *self._names)
        rows = [columns[name].filter(pa.array(is_kept)) for name in names]
        is_new = self._contents.add_keys(record_keys("", rows))
        is_first_here = self._keys_by_parent.add_keys(record_keys(str(self._parent), rows[:1]))
        lost = ~is_new_key & is_new & is_first_here
        if lost.any():
            # Duplicates of one parent on this page are allowed.
            new_keys = set(rows[0].filter(pa.array(is_new_key)).to_pylist())
            lost_records = sum(key not in new_keys for key in rows[0].filter(pa.array(lost)).to_pylist())
            if lost_records:
                raise DifferingRecordsError(
                    f"{label}: {lost_records:,} records have the key of another parent's record and differ from it. "
                    "They would be lost as duplicates. If the key is unique only within its parent, add a parent "
                    "column to parent_columns and to records.key. If the key is unique, a record has changed during "
                    "the poll, and the next try repairs it"
                )
