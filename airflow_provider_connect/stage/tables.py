"""Splits a day's staged rows by table: one for each value of a column.

A short value of lower-case letters, digits, ``_`` and ``-`` that begins with a letter or digit is its table's name.
Other values get a hash (:mod:`..values.hashed_names`).
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from pydantic import Field

from airflow_provider_connect.errors import ConfigError, ConnectError
from airflow_provider_connect.stage.manifest import StagedFile, data_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.soft_deletes import LiveRowWriter
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire

if TYPE_CHECKING:
    import pyarrow as pa

HEAD_FOLDER = "_connect_head"
"""Folder of the common ledger, beside the tables."""
MAX_NAME_CHARACTERS = 120
SPLIT_BYTES = 16 * 1024 * 1024
MAX_PENDING_BYTES = 64 * 1024 * 1024
MAX_OPEN_FILES = 16
_PLAIN_VALUE = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FIXED = re.compile(r"[A-Za-z0-9._-]*")
_COLUMN = re.compile(r"\{([^{}]+)\}")
_NULL, _NAMELESS = "null", "value"


class TableTemplate(Wire):
    """Template of table names with one column, such as ``{event}`` or ``mixpanel_{event}``.

    :param template: name of the tables' folders under the stage's root.
    :param most: the largest number of tables.
    :param kept_apart: reserved parts of names. A value whose table name would contain one gets a hash.
    """

    template: str
    most: int = Field(ge=1)
    kept_apart: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column whose value chooses the table."""
        return str(_COLUMN.findall(self.template)[0])

    def folder_name(self, value: str | None) -> str:
        """Return the folder name of a value's table, for None ``null`` and a hash."""
        from airflow_provider_connect.values.hashed_names import (  # noqa: PLC0415
            HASH_SUFFIX_CHARS,
            has_hash,
            name_with_hash,
            value_hash,
        )

        start, _, end = _COLUMN.split(self.template)
        room = MAX_NAME_CHARACTERS - len(start) - len(end)
        is_plain = value is not None and _PLAIN_VALUE.fullmatch(value) and len(value) <= room and not has_hash(value)
        if is_plain and not any(part in f"{start}{value}{end}" for part in self.kept_apart):
            return f"{start}{value}{end}"
        readable = re.sub(r"[^A-Za-z0-9-]+", "_", _NULL if value is None else value).strip("_-") or _NAMELESS
        max_chars = room - HASH_SUFFIX_CHARS
        hashed = name_with_hash(readable, value_hash(value), legal_chars="A-Za-z0-9_-", max_chars=max_chars)
        return f"{start}{hashed}{end}"

    def require_room(self, count: int, subject: str) -> None:
        """Refuse more tables than allowed.

        :param subject: owner of the tables, for the message.
        """
        if count > self.most:
            raise ConfigError(
                f"{subject}: {count:,} tables or more are needed, one for each value of column {self.column!r}, and "
                f"max_tables={self.most:,}. Choose a column with fewer values, or raise max_tables"
            )


def template_problem(template: str) -> str | None:
    """Return why a template is invalid, or None."""
    columns, fixed = _COLUMN.findall(template), _COLUMN.sub("", template)
    if len(columns) != 1 or "{" in fixed or "}" in fixed:
        return f"{template!r} must name one column in braces, such as {{event}}"
    if not _FIXED.fullmatch(fixed) or template[0] in "._-":
        return f"{template!r}: around the column use letters, digits, '.', '_' and '-'. The first is a letter or digit"
    if len(fixed) > MAX_NAME_CHARACTERS // 2:
        return f"{template!r}: around the column there is room for {MAX_NAME_CHARACTERS // 2} characters"
    return None


def table_folder(path: str) -> str:
    """Return the table's folder in the path of a staged file."""
    return path.partition("/")[0]


class StagedPart(NamedTuple):
    """One partition of a day in one attempt, as the arguments of :func:`.data_file`."""

    day: Day
    attempt: str
    part: int
    suffix: str


def open_row_writer(
    folder: Folder, schema: pa.Schema, tables: TableTemplate | None, part: StagedPart, *, soft_deletes: bool = False
) -> RowWriter | TableSplitWriter:
    """Return a writer for a partition's rows: into one file, or with ``tables`` into files of each table.

    :param soft_deletes: add the mark columns of live rows. Not with ``tables``.
    """
    if tables is None:
        return (LiveRowWriter if soft_deletes else RowWriter)(folder, data_file(*part), schema)
    return TableSplitWriter(folder, schema, tables, part)


class TableSplitWriter:
    """Writer of each row into a file of the row's table. Deletes all its files after an error."""

    def __init__(self, folder: Folder, schema: pa.Schema, tables: TableTemplate, part: StagedPart) -> None:
        self._folder = folder
        self._schema = schema
        self._tables = tables
        self._part = part
        self._names: dict[str | None, str] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._buffered_bytes = self._count = 0
        self._buffers: dict[str, list[pa.RecordBatch]] = {}
        self._buffer_bytes: dict[str, int] = {}
        self._open: OrderedDict[str, RowWriter] = OrderedDict()
        self.files: tuple[StagedFile, ...] = ()

    def __enter__(self) -> Self:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch."""
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= SPLIT_BYTES:
            self._split_waiting()

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows that are not yet written."""
        return self._waiting_bytes + self._buffered_bytes

    def flush(self) -> None:
        """Write all buffered rows. Makes small row groups."""
        self._split_waiting()
        for name in sorted(self._buffers):
            self._write_buffer(name)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        finished = False
        try:
            if kind is None:
                self._split_waiting()
                for name in sorted(self._buffers):
                    self._write_buffer(name)
                    self._close(name)
                for name in [*self._open]:
                    self._close(name)
                finished = True
        finally:
            if not finished:
                self._abandon()

    def _abandon(self) -> None:
        error = ConnectError("abandoned")
        for writer in self._open.values():
            with suppress(OSError, ConnectError):
                writer.__exit__(ConnectError, error, None)
        for file in self.files:
            with suppress(OSError, ConnectError):
                self._folder.delete(file.path)
        self.files = ()

    def _split_waiting(self) -> None:
        import numpy as np
        import pyarrow as pa

        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        column = pa.chunked_array(rows[self._tables.column]).combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # only for a table without rows
            return
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
        values = [None if value is None else str(value) for value in coded.dictionary.to_pylist()] + [None]
        order = np.argsort(codes, kind="stable")
        codes_found, starts = np.unique(codes[order], return_index=True)
        ends = [*starts[1:], len(order)]
        self._assign_names(values[code] for code in codes_found)
        for code, start, end in zip(codes_found, starts, ends, strict=True):
            for batch in rows.take(pa.array(order[start:end])).combine_chunks().to_batches():
                self._buffer(self._names[values[code]], batch)

    def _assign_names(self, values: Iterable[str | None]) -> None:
        for value in values:
            if value not in self._names:
                self._names[value] = self._tables.folder_name(value)
                self._tables.require_room(len(self._names), f"day {self._part.day}")
        if len(set(self._names.values())) < len(self._names):
            raise ConfigError(
                f"day {self._part.day}: two values of column {self._tables.column!r} have equal hashes, and would "
                "share a table. Rename one in the source"
            )

    def _buffer(self, name: str, batch: pa.RecordBatch) -> None:
        self._buffers.setdefault(name, []).append(batch)
        self._buffer_bytes[name] = self._buffer_bytes.get(name, 0) + batch.nbytes
        self._buffered_bytes += batch.nbytes
        while self._buffered_bytes > MAX_PENDING_BYTES:
            self._write_buffer(max(self._buffer_bytes, key=self._buffer_bytes.__getitem__))

    def _write_buffer(self, name: str) -> None:
        writer = self._open.get(name) or self._open_writer(name)
        self._open.move_to_end(name)
        self._buffered_bytes -= self._buffer_bytes.pop(name)
        for batch in self._buffers.pop(name):
            writer.write(batch)
        writer.flush()

    def _open_writer(self, name: str) -> RowWriter:
        while len(self._open) >= MAX_OPEN_FILES:
            self._close(next(iter(self._open)))
        # A table gets another file after its first one was closed.
        path = f"{name}/{data_file(*self._part._replace(suffix=f'{self._part.suffix}{self._count}'))}"
        self._count += 1
        writer = RowWriter(self._folder, path, self._schema).__enter__()
        self._open[name] = writer
        return writer

    def _close(self, name: str) -> None:
        writer = self._open.pop(name)
        writer.__exit__(None, None, None)
        self.files += writer.files
