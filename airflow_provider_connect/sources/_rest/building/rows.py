"""Converts a page to typed rows with keys. Drops and counts duplicates and rows of other days."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_connect.errors import DataError
from airflow_provider_connect.polling.dedupe import KeySet
from airflow_provider_connect.polling.keys import keys_as_hex, record_keys
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._rest.building.absent_columns import AbsentColumns
from airflow_provider_connect.sources._rest.building.column_builder import build_column
from airflow_provider_connect.sources._rest.building.duplicates import DIFFERING_DUPLICATES, DuplicateCheck
from airflow_provider_connect.sources._rest.building.order_check import OrderCheck
from airflow_provider_connect.sources._rest.building.record_decoder import (
    DecodedRecords,
    RecordDecoder,
    UndeclaredFields,
)
from airflow_provider_connect.sources._rest.pages.page_parser import PageParts
from airflow_provider_connect.sources._rest.records import DOCUMENT, RECORD_KEY, ParentColumn, Records, row_schema
from airflow_provider_connect.stage.rejects import Reject, Tolerance
from airflow_provider_connect.values.json.slices import JsonSlicer
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_NAMED_FIELDS = 5


class PageRows(NamedTuple):
    """The rows of a page.

    :param fingerprint: hash of the records' keys, or of their JSON if a record was rejected. None without records.
    :param record_count: records of the page, also those that are no rows.
    :param keys: 16 bytes for each record.
    :param is_readable: mask of the records that are not rejected. None if all are readable.
    :param duplicates: records with the key of an earlier row.
    """

    batch: pa.RecordBatch
    fingerprint: bytes | None
    record_count: int = 0
    keys: bytes = b""
    is_readable: Any = None
    duplicates: int = 0


class RowBuilder:
    """Builds the rows of one poll, page by page.

    :param day: the expected day, or None for a snapshot.
    """

    def __init__(
        self,
        records: Records,
        parent_columns: tuple[ParentColumn, ...],
        day: Day | None,
        *,
        seen_keys: KeySet,
        tolerance: Tolerance,
        tally: Tally,
        slices: JsonSlicer,
        duplicate_check: DuplicateCheck,
        order_check: OrderCheck | None = None,
    ) -> None:
        self._records = records
        self._parents = parent_columns
        self._day = day
        self._seen = seen_keys
        self._tolerance = tolerance
        self._tally = tally
        self._schema = row_schema(records, parent_columns)
        self._decoder = RecordDecoder(records, slices)
        self._absent_columns = AbsentColumns(records, slices)
        self._duplicate_check = duplicate_check
        self._order_check = order_check

    def build_rows(self, page: PageParts, parent_values: Mapping[str, Any], label: str) -> PageRows:
        """Return the rows of a page.

        :param parent_values: by the parent's column names.
        :raises DataError: a record is invalid and not tolerated, or has undeclared fields.
        """
        import numpy as np
        import pyarrow as pa

        if not page.records:
            return PageRows(pa.RecordBatch.from_pylist([], schema=self._schema), None)
        decoded = self._decoder.decode(page)
        self._count_undeclared(decoded.undeclared, label)
        columns, invalid = self._columns(page, decoded)
        self._absent_columns.note_page(columns, page.records, label)
        for parent_column in self._parents:
            value = pa.scalar(parent_values[parent_column.parent_name], self._schema.field(parent_column.name).type)
            columns[parent_column.name] = pa.repeat(value, len(page.records))
        if self._order_check is not None and self._records.day is not None:
            self._order_check.add(columns[self._records.day], label)
        self._require_key_and_day(columns, invalid)
        first = self._tally.rows
        self._tally.rows += len(page.records)
        keep = np.ones(len(page.records), dtype=bool)
        self._reject(page, invalid, keep, first, label)
        key_bytes = record_keys("", [columns[name] for name in self._records.key])
        # By keys, because other fields of the same record may change between answers.
        fingerprint = hashlib.blake2b(page.records_json if invalid else key_bytes, digest_size=16).digest()
        columns[RECORD_KEY] = keys_as_hex(key_bytes)
        is_readable = keep.copy() if invalid else None
        self._drop_other_days(columns, keep, label)
        duplicates = self._drop_duplicates(key_bytes, columns, keep, label)
        batch = pa.RecordBatch.from_arrays(
            [
                column if (column := columns[field.name]).type == field.type else column.cast(field.type)
                for field in self._schema
            ],
            schema=self._schema,
        )
        rows = batch if keep.all() else batch.filter(pa.array(keep))
        return PageRows(rows, fingerprint, len(page.records), key_bytes, is_readable, duplicates)

    def note_absent_columns(self) -> None:
        """Count the columns whose field no record had."""
        self._tally.counts.update(self._absent_columns.counts(self._tally.rows))

    def refused_columns(self) -> list[str]:
        """Return the columns whose field no record had, if ``records.absent`` refuses them."""
        return self._absent_columns.refused() if self._tally.rows else []

    def _columns(
        self, page: PageParts, decoded: DecodedRecords
    ) -> tuple[dict[str, pa.Array], dict[int, tuple[str, str]]]:
        invalid = {number: (reason, "") for number, reason in decoded.unreadable.items()}
        if decoded.lone_surrogates:
            self._tally.counts["lone_surrogates"] += decoded.lone_surrogates
        columns: dict[str, pa.Array] = {}
        for name, column in self._records.columns.items():
            array, misfits = build_column(
                column,
                decoded.values[name],
                lambda row, name=name: self._decoder.json_text(page.records[row], name),  # type: ignore[misc]
            )
            columns[name] = array
            for row in misfits:
                invalid.setdefault(row, (f"its value of column {name!r} is no {column.type}", name))
        if self._records.undeclared == "json":
            columns[DOCUMENT] = _documents(page, invalid)
        return columns, invalid

    def _require_key_and_day(self, columns: Mapping[str, pa.Array], invalid: dict[int, tuple[str, str]]) -> None:
        """Add records without a key to ``invalid``, and those without a day that they need."""
        required_columns = dict.fromkeys(self._records.key, "key")
        if self._day is not None and self._records.day is not None and self._records.outside != "count":
            required_columns.setdefault(self._records.day, "day")
        for name, role in required_columns.items():
            if columns[name].null_count:
                for row in columns[name].is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                    invalid.setdefault(row, (f"its {role} column {name!r} is missing or null", name))

    def _reject(
        self, page: PageParts, invalid: Mapping[int, tuple[str, str]], keep: Any, first: int, label: str
    ) -> None:
        for number in sorted(invalid):
            reason, column = invalid[number]
            message = f"{label}: record {first + number} is rejected: {reason}"
            self._tolerance.require(self._tally.counts["rejected"] + 1, message)
            self._tally.reject(Reject(first + number, reason, bytes(page.records[number]), column))
            keep[number] = False

    def _count_undeclared(self, undeclared: UndeclaredFields, label: str) -> None:
        if not undeclared.records:
            return
        if self._records.undeclared == "fail":
            names = undeclared.names
            names_text = ", ".join(ascii(name[:40]) for name in names[:_MAX_NAMED_FIELDS])
            more_text = f" and {len(names) - _MAX_NAMED_FIELDS} more" if len(names) > _MAX_NAMED_FIELDS else ""
            raise DataError(
                f"{label}: records have undeclared fields: {names_text}{more_text}. Declare them in records.columns, "
                "or set records.undeclared to 'json' or 'drop'"
            )
        self._tally.counts["undeclared_dropped"] += undeclared.records

    def _drop_other_days(self, columns: Mapping[str, pa.Array], keep: Any, label: str) -> None:
        """Apply ``records.outside``: clear ``keep`` for records to drop. Widens the tally's time range."""
        import pyarrow as pa
        import pyarrow.compute as pc

        name = self._records.day
        if name is None:
            return
        times = columns[name]
        day, is_whole = self._day, not times.null_count and keep.all()
        if pa.types.is_timestamp(times.type):
            span = pc.min_max(times if is_whole else times.filter(pa.array(keep))).as_py()
            if span["min"] is not None:
                self._tally.widen_span(span["min"], span["max"])
            if day is not None and is_whole and day.start <= span["min"] and span["max"] < day.end:
                return
        if day is None:
            return
        inside = self._is_in_day(times)
        outside = keep & ~inside
        if not outside.any():
            return
        if self._records.outside == "fail":
            raise DataError(
                f"{label}: {int(outside.sum()):,} records are not of day {self._day} by column {name!r}. Correct "
                "bounds or zone, or set records.outside to 'drop' or 'count'"
            )
        if self._records.outside == "count":
            self._tally.counts["outside_day"] += int(outside.sum())
        else:
            self._tally.counts["other_day"] += int(outside.sum())
            keep &= inside

    def _is_in_day(self, times: pa.Array) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self._day is not None
        if pa.types.is_timestamp(times.type):
            low, high = (pa.scalar(at, times.type) for at in (self._day.start, self._day.end))
            inside = pc.and_(pc.greater_equal(times, low), pc.less(times, high))
        else:
            inside = pc.equal(times, pa.scalar(self._day.date, times.type))
        return pc.fill_null(inside, fill_value=False).to_numpy(zero_copy_only=False)

    def _drop_duplicates(self, key_bytes: bytes, columns: Mapping[str, pa.Array], keep: Any, label: str) -> int:
        """Clear ``keep`` for duplicates, unless a later version counts. Returns their number."""
        first = self._seen.add_keys(key_bytes, keep)
        if differing := self._duplicate_check.count_differing(columns, keep, first, label):
            self._tally.counts[DIFFERING_DUPLICATES] += differing
        if first.all():
            return 0
        duplicates = int((~first).sum())
        self._tally.counts["duplicates"] += duplicates
        if not self._records.keeps_later_version:
            keep[keep] = first
        return duplicates


def _documents(page: PageParts, invalid: dict[int, tuple[str, str]]) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    ends = np.cumsum(np.fromiter(map(len, page.records), np.int64, len(page.records)))
    try:
        offsets = pa.array(np.append(0, ends)).cast(pa.int32()).buffers()[1]
        return pa.Array.from_buffers(
            pa.binary(), len(ends), [None, offsets, pa.py_buffer(b"".join(page.records))]
        ).cast(pa.string())
    except pa.ArrowInvalid:
        texts = [bytes(record) for record in page.records]
        for number, text in enumerate(texts):
            try:
                text.decode()
            except UnicodeDecodeError as error:
                invalid.setdefault(number, (f"invalid UTF-8 at its byte {error.start}", ""))
                texts[number] = b"{}"
        return pa.array(texts, pa.binary()).cast(pa.string())
