"""Finds children of several parents that share a key and are not the same: a key unique within its parent only."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import keys
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.records import DOCUMENT, RECORD_KEY

if TYPE_CHECKING:
    import pyarrow as pa

_LIMIT_BYTES = 16 << 20


class Siblings:
    """Looks at the records of one poll that are dropped as duplicates, parent by parent.

    The same record under two parents is a duplicate. Another record under the same key is a row that would be lost.

    :param stack: lets go of what it keeps.
    """

    def __init__(self, options: RestOptions, stack: ExitStack) -> None:
        records = options.records
        self._names = [name for name in records.columns if name not in records.key]
        self._names += [DOCUMENT] if records.undeclared == "json" else []
        self._contents = stack.enter_context(KeySet(_LIMIT_BYTES))
        self._of_parents = stack.enter_context(KeySet(_LIMIT_BYTES))
        self._parent = 0

    @classmethod
    def of(cls, options: RestOptions, stack: ExitStack) -> Siblings | None:
        """Return what looks at the children of several parents; None where their key names the parent."""
        is_needed = options.parent is not None and not set(options.parent_columns) & set(options.records.key)
        return cls(options, stack) if is_needed else None

    def begin(self) -> None:
        """Go on to the next parent."""
        self._parent += 1

    def require_same(self, columns: Mapping[str, pa.Array], kept: Any, first: Any, about: str) -> None:
        """Make sure that no record is dropped that differs from the one of another parent with its key.

        :param kept: of each record, whether it is a row, but for its key.
        :param first: of those, whether the key is new.
        :raises RetriableError: there is one; or a record changed between two parents, which the next try mends.
        """
        import pyarrow as pa

        names = (RECORD_KEY, *self._names)
        rows = [columns[name].filter(pa.array(kept)) for name in names]
        is_new = self._contents.add_keys(keys("", rows))
        is_first_here = self._of_parents.add_keys(keys(str(self._parent), rows[:1]))
        lost = ~first & is_new & is_first_here
        if lost.any():
            # What the parent has twice on this very page is its own matter.
            begun = set(rows[0].filter(pa.array(first)).to_pylist())
            found = sum(key not in begun for key in rows[0].filter(pa.array(lost)).to_pylist())
            if found:
                raise RetriableError(
                    f"{about}: {found:,} records have the key of another parent's record and differ from it: they "
                    "would be lost as its duplicates. A key that is unique within its parent only needs the parent, "
                    "too: name a column of it in parent_columns, and that in records.key. If the key is unique, a "
                    "record has changed meanwhile, and the next try finds it alike"
                )
