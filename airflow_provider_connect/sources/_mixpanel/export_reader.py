"""Reads one export answer to its end: tells records from rejects, and from answers that are no export."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import DataError, RetriableError
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
"""How an export says that it is incomplete: as a separate line, or at the end of a cut one."""

_MAX_SPLIT_LINES = 64
_SHORT_LINE_BYTES = 24
_MAX_REJECT_BYTES = 64 << 20  # they are kept in memory until the partition ends
_LINE_BREAK_IN_STRING = b"\\n"


@dataclass
class _Broken:
    """Neighbouring lines that may form a record together, but not alone."""

    lines: list[tuple[int, bytes, str]] = field(default_factory=list)
    size: int = 0


class ExportReader:
    """Turns the blocks of one answer into batches of days. Feed it :meth:`read_block` in order, then :meth:`finish`.

    :param stray: counts what belongs to no day of the answer, such as lines that are no records; by default ``tally``.
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
        self._stray = tally if stray_tally is None else stray_tally
        self._broken = _Broken()
        self._records = 0
        self._reject_bytes = 0

    def read_block(self, block: Block) -> Iterator[tuple[Day, pa.RecordBatch]]:
        """Yield the rows of one block, each batch with its day.

        :raises RetriableError: if the answer says that it is incomplete, or is not an export.
        :raises DataError: if a line is not a record, and not tolerated.
        :raises ErrorDocumentError: if the server reports an error in the middle.
        """
        bounds = find_line_bounds(block.data, min_mean_bytes=_SHORT_LINE_BYTES)
        if bounds is not None:
            yield from self._read(block, bounds)
            return
        for part in slices(block):  # not an export: notes on so many short lines would outweigh them
            few = find_line_bounds(part.data)
            assert few is not None
            yield from self._read(part, few)

    def _read(self, block: Block, bounds: LineBounds) -> Iterator[tuple[Day, pa.RecordBatch]]:
        found = self._reader.read_block(block, bounds)
        self._tally.raw_bytes += len(block.data)
        if found.blank_count:
            self._stray.counts["blank_lines"] += found.blank_count
        if found.records is not None:
            self._records += len(found.records)
            yield from self._batch(found.records)
        others = list(self._odd_lines(block, found))
        if others:
            yield from self._batch(RecordColumns.from_list(others))

    def finish(self) -> None:
        """Finish after the last block.

        :raises RetriableError: if the last line is not a record, or no line was one.
        """
        if self._broken.lines and self._records == 0:
            raise self.not_an_export_error()
        if self._broken.lines:
            # A server that fails half way often says so in its last line.
            raise RetriableError(f"the export is cut: its last line is not a record; {self.progress_text()}")

    def _odd_lines(self, block: Block, found: BlockRecords) -> Iterator[ParsedRecord]:
        following = 0
        for number, start in found.odd_lines:
            if number != following:  # whole records in between: the broken lines before them belong to no later one
                self._give_up()
            following = number + 1
            end = block.data.find(b"\n", start)
            line = block.data[start : end if end >= 0 else len(block.data)]
            yield from self._odd_line(line, block.position + start)
        if following != found.line_count:
            self._give_up()

    def _odd_line(self, line: bytes, position: int) -> Iterator[ParsedRecord]:
        try:
            record = self._reader.read_line(line, position)
        except NotARecordError as error:
            if not line.lstrip().startswith(b"{") and TERMINATED_EARLY in line.lower():
                raise RetriableError(f"the export reports 'terminated early'; {self.progress_text()}") from None
            yield from self._rejoined(line, position, str(error))
            return
        self._give_up()
        yield self._noted(record)

    def _rejoined(self, line: bytes, position: int, reason: str) -> Iterator[ParsedRecord]:
        """Yield the record that the line completes, if one began in a line before it."""
        broken = self._broken
        broken.lines.append((position, line, reason))
        broken.size += len(line) + 1
        for first in range(len(broken.lines) - 1):
            begin, head, _ = broken.lines[first]
            if not head.lstrip().startswith(b"{"):
                continue
            pieces = [piece for _, piece, _ in broken.lines[first:]]
            for glue in (b"\n", _LINE_BREAK_IN_STRING):
                text = glue.join(pieces)
                record = self._try(text, begin) if len(text) <= self._max_record_bytes else None
                if record is not None:
                    del broken.lines[first:]
                    self._give_up()
                    self._stray.counts["rejoined"] += 1
                    yield self._noted(record)
                    return
        if len(broken.lines) >= _MAX_SPLIT_LINES or broken.size > self._max_record_bytes:
            self._give_up()

    def _try(self, text: bytes, position: int) -> ParsedRecord | None:
        try:
            return self._reader.read_line(text, position)
        except NotARecordError:
            return None

    def _give_up(self) -> None:
        """Reject the lines that made no record."""
        broken, self._broken = self._broken, _Broken()
        for position, line, reason in broken.lines:
            self._reject(Reject(position, reason, line))

    def _reject(self, reject: Reject) -> None:
        where = f"the line at byte {reject.position} of the answer is no record: {reject.reason}"
        rejects = self._stray.counts["rejected"] + 1
        if self._records == 0 and not self._tolerance.allows(rejects):
            raise self.not_an_export_error()
        self._tolerance.require(rejects, where)
        self._reject_bytes += len(reject.record)
        if self._reject_bytes > _MAX_REJECT_BYTES:
            raise DataError(f"the lines that are no records have over {_MAX_REJECT_BYTES} bytes together; {where}")
        self._stray.reject(reject)

    def _batch(self, records: RecordColumns) -> Iterator[tuple[Day, pa.RecordBatch]]:
        placed, rejects = self._rows.rows_by_day(records)
        for reject in rejects:
            self._reject(reject)
        yield from placed

    def _noted(self, record: ParsedRecord) -> ParsedRecord:
        self._records += 1
        self._stray.counts.update(record.notes)
        return record

    def not_an_export_error(self) -> RetriableError:
        """Return the error for an answer without any record that is not empty."""
        return RetriableError(
            "the answer is not an export: it is not empty, but holds no record; if this happens again, check what the "
            f"host or a proxy answers; {self.progress_text()}"
        )

    def progress_text(self) -> str:
        """Return how much of the answer was read, for messages."""
        return f"seen so far: {self._tally.rows_of_all_days} rows, {self._tally.raw_bytes} bytes"
