"""Checks a listing by its records' keys: how many differ, and whether rows are lost at page edges."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from airflow_provider_connect.closing import Closable
from airflow_provider_connect.errors import SetupError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import record_keys
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.pages.paging import LastKey, Single, last_record_path, names_unique_field

if TYPE_CHECKING:
    from airflow_provider_connect.sources._rest.building.rows import PageRows

_KEY_BYTES = 16
_LIMIT_BYTES = 16 << 20
MAX_PAGES_WITHOUT_NEW_RECORDS = 100
"""Largest number of consecutive pages whose records all came before."""


class ListingCheck(Closable):
    """The records of one listing so far. A poll may have a listing for each parent.

    :param has_own_keys: the poll's keys cannot tell which records the listing repeats.
    """

    def __init__(self, *, has_own_keys: bool) -> None:
        self._has_own_keys = has_own_keys
        self._keys: KeySet | None = None
        self._first_page: PageRows | None = None
        self._pages_without_new_records = 0
        self.different_records = 0

    @classmethod
    def for_options(cls, options: RestOptions, *, is_repeated: bool = False) -> ListingCheck:
        """Return the check of a listing.

        :param is_repeated: the listing begins again, so the poll already has its first records.
        """
        return cls(
            has_own_keys=is_repeated or options.has_parents or options.records.outside == "drop" or _has_cap(options)
        )

    def close(self) -> None:
        """Release the keys."""
        self._first_page = None
        if self._keys is not None:
            self._keys.close()
            self._keys = None

    def add(self, rows: PageRows, label: str) -> None:
        """Count a page's records that differ from all earlier ones of the listing, rejected records included.

        :raises SetupError: too many pages in a row had no new record.
        """
        new_records = self._new_records(rows)
        self.different_records += new_records
        if new_records or not rows.record_count:
            self._pages_without_new_records = 0
            return
        self._pages_without_new_records += 1
        if self._pages_without_new_records >= MAX_PAGES_WITHOUT_NEW_RECORDS:
            raise SetupError(
                f"{label}: like the {MAX_PAGES_WITHOUT_NEW_RECORDS - 1} pages before it, it has only records that came "
                "before. Reading would never end. The next try starts at the first page. If it fails again, choose "
                "another end rule, or check the paging parameters, which the service may ignore"
            )

    def _new_records(self, rows: PageRows) -> int:
        if not self._has_own_keys:
            return rows.record_count - rows.duplicates
        if self._keys is None and self._first_page is None:
            self._first_page = rows._replace(batch=None)  # most listings end here, and need no key set
            return len(_split(_readable_keys(rows))) + rows.record_count - len(_readable_keys(rows)) // _KEY_BYTES
        if self._keys is None and self._first_page is not None:
            self._keys = KeySet(_LIMIT_BYTES)
            self._add_keys(self._keys, self._first_page)
            self._first_page = None
        assert self._keys is not None
        return self._add_keys(self._keys, rows)

    @staticmethod
    def _add_keys(keys: KeySet, rows: PageRows) -> int:
        is_new = keys.add_keys(_readable_keys(rows))
        return int(is_new.sum()) + rows.record_count - len(is_new)


class EdgeCheck(Closable):
    """Detects records that are lost between two pages, where the next page starts at a field of the last record.

    If records at the edge share the value, an inclusive parameter sends the last one again, and an exclusive one skips
    the others. At an API's cap, the edge lies between two listings.

    :param column: the column of a field that is declared unique, else None.
    :param spans_listings: the edge lies between two listings.
    """

    def __init__(self, path: str, column: str | None, *, spans_listings: bool) -> None:
        self._path = path
        self._column = column
        self._spans_listings = spans_listings
        self._values: KeySet | None = None
        self.start_parent()

    @classmethod
    def for_options(cls, options: RestOptions, stack: ExitStack) -> EdgeCheck | None:
        """Return a check. None if the field is the key, or the paging uses no field.

        :param stack: closes the check.
        """
        paging = options.paging
        path = last_record_path(paging)
        if path is None or options.records.is_identified_by(path):
            return None
        column = options.records.column_at(path) if names_unique_field(paging) else None
        return stack.enter_context(cls(path, column, spans_listings=not isinstance(paging, LastKey)))

    def close(self) -> None:
        """Release the keys."""
        if self._values is not None:
            self._values.close()
            self._values = None

    def start_parent(self) -> None:
        """Forget the records of the last parent: the next ones belong to the next parent."""
        self._last_key: bytes | None = None
        self._edge_key: bytes | None = None
        self.close()
        self._values = KeySet(_LIMIT_BYTES) if self._column is not None else None

    def start_listing(self) -> None:
        """Start the first listing, or the next one after a cap."""
        self._edge_key = self._last_key

    def end_listing(self, label: str) -> None:
        """Require that a listing after a cap had the last record of the previous one.

        :raises SetupError: it is missing.
        """
        if self._spans_listings and self._edge_key is not None:
            raise self._lost_rows_error(label)

    def add(self, rows: PageRows, label: str) -> None:
        """Check a page against the previous one.

        :raises SetupError: the last record of the previous page is missing, or a unique field's value occurs twice.
        """
        if self._values is not None and self._column is not None:
            self._require_unique(rows, self._values, self._column, label)
            return
        if self._edge_key is not None and self._edge_key in _split(rows.keys):
            self._edge_key = None
        if not self._spans_listings and self._edge_key is not None:
            raise self._lost_rows_error(label)
        if rows.record_count:
            self._last_key = rows.keys[-_KEY_BYTES:]
        if not self._spans_listings:
            self._edge_key = self._last_key

    def _lost_rows_error(self, label: str) -> SetupError:
        return SetupError(
            f"{label}: starts after the last record by {self._path!r}, and that record does not come again. The "
            "parameter excludes the value, so other records with the same value may be lost. Page by the field that "
            "is records.key, let the parameter include the value, or set unique=True if no two records share it"
        )

    def _require_unique(self, rows: PageRows, values: KeySet, column: str, label: str) -> None:
        is_new = values.add_keys(record_keys("", [rows.batch.column(column)]))
        if not is_new.all():
            raise SetupError(
                f"{label}: {int((~is_new).sum()):,} records have the {self._path!r} of another record, though the "
                "paging says unique=True. Page by the field that is records.key, or let the parameter include the value"
            )


def _has_cap(options: RestOptions) -> bool:
    paging = options.paging
    return not isinstance(paging, Single | LastKey) and paging.cap is not None


def _readable_keys(rows: PageRows) -> bytes:
    if rows.is_readable is None:
        return rows.keys
    import numpy as np

    return bytes(np.frombuffer(rows.keys, f"V{_KEY_BYTES}")[rows.is_readable].tobytes())


def _split(keys: bytes) -> set[bytes]:
    return {keys[start : start + _KEY_BYTES] for start in range(0, len(keys), _KEY_BYTES)}
