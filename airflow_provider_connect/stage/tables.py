"""Deals a day's rows out to tables while they are staged: one for each value of a column, each with its own files.

A table's name depends on its value alone, so a value never moves to another table because others came. A value keeps
its form if it is short and of lower-case letters, digits, ``_`` and ``-``, and begins with a letter or digit: then no
other name is the same where files' names ignore case. Any other gets a hash (:mod:`..values.marks`). Rows keep the
value itself.

Neither memory nor open files grow with the number of tables: rows are held back up to a limit and then written for the
table that holds most, and the file of the table that was longest without rows is closed. That table gets another file.
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
"""The folder beside the tables that holds the ledger of them all; no table's name begins with ``_``."""
MAX_NAME_CHARACTERS = 120
"""Folders may have longer names, but what lies in them must fit into a path as well."""
SPLIT_BYTES = 16 * 1024 * 1024
MAX_PENDING_BYTES = 64 * 1024 * 1024
MAX_OPEN_FILES = 16
_AS_IT_IS = re.compile(r"[a-z0-9][a-z0-9_-]*")
_FIXED = re.compile(r"[A-Za-z0-9._-]*")
_COLUMN = re.compile(r"\{([^{}]+)\}")
_NULL, _NAMELESS = "null", "value"


class TableTemplate(Wire):
    """Which table a row belongs to: a template with one column, such as ``{event}`` or ``mixpanel_{event}``.

    :param template: the name of the tables' folders under the stage's root.
    :param most: how many tables there may be.
    :param kept_apart: parts of names that other tables have; a value whose table's name would hold one gets a hash.
    """

    template: str
    most: int = Field(ge=1)
    kept_apart: tuple[str, ...] = ()

    @property
    def column(self) -> str:
        """The column whose value chooses the table."""
        return str(_COLUMN.findall(self.template)[0])

    def folder_name(self, value: str | None) -> str:
        """Return the folder of a value's table; that of None has the text ``null`` and a hash."""
        from airflow_provider_connect.values.hashed_names import HASH_SUFFIX_CHARS, has_hash, name_with_hash, value_hash  # noqa: PLC0415

        start, _, end = _COLUMN.split(self.template)
        room = MAX_NAME_CHARACTERS - len(start) - len(end)
        is_plain = value is not None and _AS_IT_IS.fullmatch(value) and len(value) <= room and not has_hash(value)
        if is_plain and not any(part in f"{start}{value}{end}" for part in self.kept_apart):
            return f"{start}{value}{end}"
        shown = re.sub(r"[^A-Za-z0-9-]+", "_", _NULL if value is None else value).strip("_-") or _NAMELESS
        return f"{start}{name_with_hash(shown, value_hash(value), legal_chars='A-Za-z0-9_-', max_chars=room - HASH_SUFFIX_CHARS)}{end}"

    def require_room(self, count: int, subject: str) -> None:
        """Refuse more tables than there may be.

        :param where: what has them, for the message.
        :raises ConfigError: with both figures.
        """
        if count > self.most:
            raise ConfigError(
                f"{subject}: {count:,} tables or more are needed, one for each value of column {self.column!r}, and "
                f"max_tables={self.most:,}: name a column with fewer values, or allow more"
            )


def template_problem(template: str) -> str | None:
    """Say what is wrong with a template; None if nothing."""
    columns, fixed = _COLUMN.findall(template), _COLUMN.sub("", template)
    if len(columns) != 1 or "{" in fixed or "}" in fixed:
        return f"{template!r} must name one column in braces, such as {{event}}"
    if not _FIXED.fullmatch(fixed) or template[0] in "._-":
        return f"{template!r}: around the column use letters, digits, '.', '_' and '-'; the first is a letter or digit"
    if len(fixed) > MAX_NAME_CHARACTERS // 2:
        return f"{template!r}: around the column there is room for {MAX_NAME_CHARACTERS // 2} characters"
    return None


def table_folder(path: str) -> str:
    """Return the folder of the table that a staged file belongs to."""
    return path.partition("/")[0]


class StagedPart(NamedTuple):
    """Whose rows a writer writes: a partition's of one day; the fields are those of :func:`.data_file`."""

    day: Day
    attempt: str
    part: int
    copy: str


def open_row_writer(
    folder: Folder, schema: pa.Schema, tables: TableTemplate | None, part: StagedPart, *, soft_deletes: bool = False
) -> RowWriter | TableSplitWriter:
    """Return what writes a share's rows: into one file, or into those of each table.

    :param soft_deletes: whether each row says that it is there; of one table alone.
    """
    if tables is None:
        return (LiveRowWriter if soft_deletes else RowWriter)(folder, data_file(*part), schema)
    return TableSplitWriter(folder, schema, tables, part)


class TableSplitWriter:
    """Writes batches into the files of their rows' tables; deletes them all after an error."""

    def __init__(self, folder: Folder, schema: pa.Schema, tables: TableTemplate, part: StagedPart) -> None:
        self._folder = folder
        self._schema = schema
        self._tables = tables
        self._share = part
        self._names: dict[str | None, str] = {}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._held_bytes = self._count = 0
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._sizes: dict[str, int] = {}
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
            self._deal()

    @property
    def pending_bytes(self) -> int:
        """How much waits in memory for its row group to be full."""
        return self._waiting_bytes + self._held_bytes

    def flush(self) -> None:
        """Write what waits, as row groups that are smaller than others."""
        self._deal()
        for name in sorted(self._held):
            self._flush(name)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        finished = False
        try:
            if kind is None:
                self._deal()
                for name in sorted(self._held):
                    self._flush(name)
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

    def _deal(self) -> None:
        """Sort the waiting rows by table, and copy each table's: a slice would keep all of them in memory."""
        import numpy as np
        import pyarrow as pa

        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting, self._schema).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        column = pa.chunked_array(rows[self._tables.column]).combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # of a table without rows
            return
        coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode(null_encoding="encode")
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy(zero_copy_only=False)
        values = [None if value is None else str(value) for value in coded.dictionary.to_pylist()] + [None]
        order = np.argsort(codes, kind="stable")
        found, starts = np.unique(codes[order], return_index=True)
        ends = [*starts[1:], len(order)]
        self._name(values[code] for code in found)
        for code, start, end in zip(found, starts, ends, strict=True):
            for batch in rows.take(pa.array(order[start:end])).combine_chunks().to_batches():
                self._hold(self._names[values[code]], batch)

    def _name(self, values: Iterable[str | None]) -> None:
        for value in values:
            if value not in self._names:
                self._names[value] = self._tables.folder_name(value)
                self._tables.require_room(len(self._names), f"day {self._share.day}")
        if len(set(self._names.values())) < len(self._names):
            raise ConfigError(
                f"day {self._share.day}: two values of column {self._tables.column!r} have equal hashes, and would "
                "share a table: rename one in the source"
            )

    def _hold(self, name: str, batch: pa.RecordBatch) -> None:
        self._held.setdefault(name, []).append(batch)
        self._sizes[name] = self._sizes.get(name, 0) + batch.nbytes
        self._held_bytes += batch.nbytes
        while self._held_bytes > MAX_PENDING_BYTES:
            self._flush(max(self._sizes, key=self._sizes.__getitem__))

    def _flush(self, name: str) -> None:
        """Write what is held of a table as a row group."""
        writer = self._open.get(name) or self._opened(name)
        self._open.move_to_end(name)
        self._held_bytes -= self._sizes.pop(name)
        for batch in self._held.pop(name):
            writer.write(batch)
        writer.flush()

    def _opened(self, name: str) -> RowWriter:
        while len(self._open) >= MAX_OPEN_FILES:
            self._close(next(iter(self._open)))
        # A table whose file was closed gets another.
        path = f"{name}/{data_file(*self._share._replace(copy=f'{self._share.copy}{self._count}'))}"
        self._count += 1
        writer = RowWriter(self._folder, path, self._schema).__enter__()
        self._open[name] = writer
        return writer

    def _close(self, name: str) -> None:
        writer = self._open.pop(name)
        writer.__exit__(None, None, None)
        self.files += writer.files
