"""Reads an export to its end, with its rejects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import DataError, RetriableError, SetupError
from airflow_provider_connect.polling.jsonlines import Block, slices
from airflow_provider_connect.polling.tally import Tally
from airflow_provider_connect.sources._mixpanel.day_cutter import DayCutter
from airflow_provider_connect.sources._mixpanel.lines import LineBounds, find_line_bounds
from airflow_provider_connect.sources._mixpanel.records import (
    BlockRecords,
    NotARecordError,
    ParsedRecord,
    RecordColumns,
    RecordReader,
)
from airflow_provider_connect.sources._mixpanel.rows import EventRowMaker
from airflow_provider_connect.stage.rejects import Reject, Tolerance

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.window import Day

TERMINATED_EARLY = b"terminated early"
"""Text of a line, or in a truncated line, at the end of an incomplete export."""

_MAX_SPLIT_LINES = 64
_SHORT_LINE_BYTES = 24
_MAX_REJECT_BYTES = 64 << 20  # they are kept in memory until the partition ends
_LINE_BREAK_IN_STRING = b"\\n"


@dataclass
class _BrokenLines:
    """Adjacent lines that may form one record, broken at line breaks."""

    lines: list[tuple[int, bytes, str]] = field(default_factory=list)
    size: int = 0


class ExportReader:
    """Converter of an export's blocks to batches by day. Call :meth:`read_block` in order, then :meth:`finish`.

    :param stray_tally: for lines of unknown day.
    """

    def __init__(
        self,
        reader: RecordReader,
        row_maker: EventRowMaker | DayCutter,
        tolerance: Tolerance,
        tally: Tally,
        max_record_bytes: int,
        *,
        stray_tally: Tally | None = None,
    ) -> None:
        self._reader = reader
        self._rows = row_maker
        self._tolerance = tolerance
        self._max_record_bytes = max_record_bytes
        self._tally = tally
        self._stray_tally = tally if stray_tally is None else stray_tally
        self._broken = _BrokenLines()
        self._records = 0
        self._reject_bytes = 0

    def read_block(self, block: Block) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of a block in batches with their days.

        :raises RetriableError: an incomplete answer, or no export.
        :raises DataError: too many rejects.
        :raises ErrorDocumentError: an error document.
        """
        bounds = find_line_bounds(block.data, min_mean_bytes=_SHORT_LINE_BYTES)
        if bounds is not None:
            yield from self._read_lines(block, bounds)
            return
        for part in slices(block):  # not an export: notes on so many short lines would outweigh them
            part_bounds = find_line_bounds(part.data)
            assert part_bounds is not None
            yield from self._read_lines(part, part_bounds)

    def _read_lines(self, block: Block, bounds: LineBounds) -> Iterator[tuple[Day, pa.RecordBatch]]:
        block_records = self._reader.read_block(block, bounds)
        self._tally.raw_bytes += len(block.data)
        if block_records.blank_count:
            self._stray_tally.counts["blank_lines"] += block_records.blank_count
        if block_records.records is not None:
            self._records += len(block_records.records)
            yield from self._make_batches(block_records.records)
        odd_records = list(self._parse_odd_lines(block, block_records))
        if odd_records:
            yield from self._make_batches(RecordColumns.from_list(odd_records))

    def finish(self) -> None:
        """Check the answer's end. Raises RetriableError if the last line is not a record."""
        if self._broken.lines and self._records == 0:
            raise self.not_an_export_error()
        if self._broken.lines:
            # A server that fails half way often says so in its last line.
            raise RetriableError(f"the export is truncated: its last line is not a record. {self.progress_text()}")

    def _parse_odd_lines(self, block: Block, block_records: BlockRecords) -> Iterator[ParsedRecord]:
        next_number = 0
        for number, start in block_records.odd_lines:
            if number != next_number:  # whole records in between: the broken lines before them belong to no later one
                self._reject_broken_lines()
            next_number = number + 1
            end = block.data.find(b"\n", start)
            line = block.data[start : end if end >= 0 else len(block.data)]
            yield from self._parse_odd_line(line, block.position + start)
        if next_number != block_records.line_count:
            self._reject_broken_lines()

    def _parse_odd_line(self, line: bytes, position: int) -> Iterator[ParsedRecord]:
        try:
            record = self._reader.read_line(line, position)
        except NotARecordError as error:
            if not line.lstrip().startswith(b"{") and TERMINATED_EARLY in line.lower():
                raise RetriableError(f"the export reports 'terminated early'. {self.progress_text()}") from None
            yield from self._rejoin(line, position, str(error))
            return
        self._reject_broken_lines()
        yield self._count_notes(record)

    def _rejoin(self, line: bytes, position: int, reason: str) -> Iterator[ParsedRecord]:
        """Add a line to the broken lines. Yields the record that they form, if any."""
        broken = self._broken
        broken.lines.append((position, line, reason))
        broken.size += len(line) + 1
        for first in range(len(broken.lines) - 1):
            begin, head, _ = broken.lines[first]
            if not head.lstrip().startswith(b"{"):
                continue
            parts = [part_line for _, part_line, _ in broken.lines[first:]]
            for separator in (b"\n", _LINE_BREAK_IN_STRING):
                joined_lines = separator.join(parts)
                record = (
                    self._parse_or_none(joined_lines, begin) if len(joined_lines) <= self._max_record_bytes else None
                )
                if record is not None:
                    del broken.lines[first:]
                    self._reject_broken_lines()
                    self._stray_tally.counts["rejoined"] += 1
                    yield self._count_notes(record)
                    return
        if len(broken.lines) >= _MAX_SPLIT_LINES or broken.size > self._max_record_bytes:
            self._reject_broken_lines()

    def _parse_or_none(self, text: bytes, position: int) -> ParsedRecord | None:
        try:
            return self._reader.read_line(text, position)
        except NotARecordError:
            return None

    def _reject_broken_lines(self) -> None:
        broken, self._broken = self._broken, _BrokenLines()
        for position, line, reason in broken.lines:
            self._reject(Reject(position, reason, line))

    def _reject(self, reject: Reject) -> None:
        message = f"the line at byte {reject.position} of the answer is not a record: {reject.reason}"
        rejects = self._stray_tally.counts["rejected"] + 1
        if self._records == 0 and not self._tolerance.allows(rejects):
            raise self.not_an_export_error()
        self._tolerance.require(rejects, message)
        self._reject_bytes += len(reject.record)
        if self._reject_bytes > _MAX_REJECT_BYTES:
            raise DataError(f"the lines that are not records exceed {_MAX_REJECT_BYTES} bytes in total: {message}")
        self._stray_tally.reject(reject)

    def _make_batches(self, records: RecordColumns) -> Iterator[tuple[Day, pa.RecordBatch]]:
        batches, rejects = self._rows.rows_by_day(records)
        for reject in rejects:
            self._reject(reject)
        yield from batches

    def _count_notes(self, record: ParsedRecord) -> ParsedRecord:
        self._records += 1
        self._stray_tally.counts.update(record.notes)
        return record

    def not_an_export_error(self) -> SetupError:
        return SetupError(
            "the answer is not an export: it is not empty and contains no record. If this happens again, check the "
            f"answer of the host or of a proxy. {self.progress_text()}"
        )

    def progress_text(self) -> str:
        """State the number of rows and bytes read."""
        return f"Read so far: {self._tally.rows_of_all_days} rows, {self._tally.raw_bytes} bytes"
