"""Lets columns of a Delta table grow: writes its files again with wider types, in the commit that changes the types.

Delta's own feature ``typeWidening`` keeps narrow files, but ``deltalake`` cannot read such tables. So a widening is a
commit of its own before the publish: it replaces all files by the same rows in the new types. Readers see the same days
before and after it. If it fails or dies, the table is as before, and a sweep deletes the new files. Of two publishes
that widen, one comes first, and the other one finds the columns wide.

The commit builds on exactly the version that was read. Each new file belongs to the slot (:mod:`.slots`) of its old
one.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, OvertakenError, RetriableError
from airflow_provider_connect.sinks._delta.app_transactions import app_id, app_prefix, attempt_id
from airflow_provider_connect.sinks._delta.log import add_action, commit
from airflow_provider_connect.sinks._delta.merge_rule import recorded_rule
from airflow_provider_connect.sinks._delta.slots import FILE_SUFFIX
from airflow_provider_connect.sinks._delta.wider_types import is_wider, type_name
from airflow_provider_connect.stage.erase_list import is_erase_run
from airflow_provider_connect.stage.manifest import StagedFile, data_file, manifest_file, progress_file
from airflow_provider_connect.stage.parquet import RowWriter
from airflow_provider_connect.stage.rows import iterate_batches, open_parquet
from airflow_provider_connect.window import Day

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa
    from deltalake import DeltaTable
    from deltalake import Field as DeltaField

    from airflow_provider_connect.sink import Publish
    from airflow_provider_connect.sinks._delta.ledger import LedgerView

_LOG = logging.getLogger(__name__)
_BATCH_BYTES, _BUFFER_BYTES = 2 << 20, 1 << 20
_MEGABYTE = 1_000_000
_GENERATION = 1
"""Recorded generation of a widening's attempts: above 0, so that no sweep deletes their files."""


@dataclass(frozen=True)
class Widening:
    """The columns of one version of a table that have to grow.

    :param fields: all columns that the table shall have.
    """

    view: LedgerView
    fields: Sequence[DeltaField]
    _added: list[tuple[dt.date, StagedFile]] = field(default_factory=list)

    @property
    def is_needed(self) -> bool:
        """Whether a column has another type than the table's."""
        return bool(self._changes())

    def _changes(self) -> list[str]:
        old_types = {column.name: type_name(column) for column in self._table.schema().fields}
        return [
            f"column {column.name!r} grows from {old_types[column.name]} to {type_name(column)}"
            for column in self.fields
            if old_types.get(column.name, type_name(column)) != type_name(column)
        ]

    @property
    def _table(self) -> DeltaTable:
        assert self.view.table is not None
        return self.view.table

    def describe(self, max_bytes: int) -> str:
        """Describe the columns that grow, and the size of the files to write again.

        :raises ConfigError: the files are larger than ``max_bytes``, or another writer added rows without a day.
        """
        view, size = self.view, sum(self.view.file_sizes().values())
        text = (
            f"table {view.folder.url}: {', '.join(self._changes())}. This writes {len(view.files):,} files with "
            f"{size / _MEGABYTE:,.1f} MB again"
        )
        if size > max_bytes:
            raise ConfigError(f"{text}, and widen_up_to={max_bytes} allows less. Set widen_up_to={size} or more")
        if len(view.files) != len(self._table.file_uris()):
            raise ConfigError(f"{text}, and the table has rows without a day. Delete them by hand first")
        return text

    def run(self, max_bytes: int) -> None:
        """Write all files again and change the columns' types, in one commit. The view is then outdated.

        :raises ConfigError: see :meth:`describe`.
        :raises DataError: a value does not fit the new type.
        :raises RetriableError: a file that the log names is gone.
        """
        _LOG.info("%s", self.describe(max_bytes))
        transactions: dict[str, int] = {}
        try:
            self._write(f"widen-{secrets.token_hex(8)}", transactions)
        except BaseException:
            self._delete_files()
            raise
        # From here on the log may name the files, whatever the error. Only a sweep knows, and deletes unnamed ones.
        stored_files = self.view.folder.entries([file.path for _, file in self._added])
        actions = [add_action(file, day, stored_files[file.path]) for day, file in self._added]
        commit(
            self._table,
            transactions,
            {"connect.widened": "; ".join(self._changes())},
            files=actions,
            columns=self.fields,
            mode="overwrite",
            retries=0,
        )

    def _delete_files(self) -> None:
        with suppress(ConnectError):  # a sweep deletes them later
            for _, file in self._added:
                self.view.folder.delete(file.path)

    def _write(self, prefix: str, transactions: dict[str, int]) -> None:
        """Write all files again. Adds the application transactions of their attempts and slots."""
        view, types, key = self.view, self._new_types(), self._merge_key()
        files = view.files_with_slots()
        last_day = max((day for day, _, _ in files), default=None)
        attempts_of_days: dict[dt.date, dict[str, int]] = {}
        for number, (day, path, slot) in enumerate(files):
            if slot is None:
                new_path = f"day={day}/{prefix}.{number}.parquet"
            else:
                # An attempt's files of one day belong to one slot, so a day needs as many attempts as it has slots.
                attempts = attempts_of_days.setdefault(day, {})
                attempt = f"{prefix}-{attempts.setdefault(slot.suffix, len(attempts))}-{last_day:%Y%m%d}"
                attempt_key = attempt_id(view.key, attempt)
                if attempt_key not in transactions:
                    view.folder.write(progress_file(attempt, 0), b"{}")  # a sweep finds a killed widening's files by it
                    transactions[attempt_key] = _GENERATION
                if slot.suffix:
                    generation = view.transaction(day, slot.suffix) or _GENERATION
                    transactions[f"{app_id(view.key, day, slot.suffix)}{FILE_SUFFIX}{attempt}"] = generation
                new_path = data_file(Day(date=day), attempt, number, "0")
            if (file := self._rewrite(path, new_path, types, key)) is not None:
                self._added.append((day, file))

    def _merge_key(self) -> tuple[str, ...]:
        rule = recorded_rule(self.view.app_transactions, app_prefix(self.view.key))
        return () if rule is None else rule.key

    def _new_types(self) -> dict[str, pa.DataType]:
        import pyarrow as pa
        from deltalake import Schema

        return {column.name: column.type for column in pa.schema(Schema([*self.fields]).to_arrow())}

    def _rewrite(
        self, path: str, new_path: str, types: dict[str, pa.DataType], key: tuple[str, ...]
    ) -> StagedFile | None:
        """Write a file again in the new types, row group by row group. Returns None for a file without rows."""
        import pyarrow as pa

        folder = self.view.folder
        try:
            with open_parquet(folder, path, _BUFFER_BYTES) as source:
                schema = pa.schema(
                    [
                        column.with_type(types.get(column.name, column.type)).with_nullable(True)  # noqa: FBT003
                        for column in source.schema_arrow
                    ]
                )
                with RowWriter(folder, new_path, schema, key) as writer:
                    for batch in iterate_batches(source, _BATCH_BYTES):
                        columns = [
                            values.cast(column.type) for values, column in zip(batch.columns, schema, strict=True)
                        ]
                        writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"table {folder.url}: file {path} has a value that the wider type cannot hold: {type(error).__name__}. "
                "Load into a new table"
            ) from None
        except FileNotFoundError as error:
            raise RetriableError(
                f"table {folder.url}: file {path}, which its log names, is gone. Another process may have just cleaned "
                "it up. If the error stays, restore the file"
            ) from error
        return writer.file


def refuse_older_types(view: LedgerView, publish: Publish, columns: dict[str, DeltaField]) -> None:
    """Refuse staged rows whose columns have grown in the table since their poll.

    :raises RetriableError: the day must be polled again, with the source's present types.
    :raises OvertakenError: an erase must read the day again.
    """
    assert view.table is not None
    types = {column.name: type_name(column) for column in view.table.schema().fields}
    grown = [name for name, column in columns.items() if name in types and is_wider(type_name(column), types[name])]
    if not grown:
        return
    text = f"table {view.folder.url}: column {grown[0]!r} has grown to {types[grown[0]]} since {publish.day} was read"
    if is_erase_run(publish.intent.run):
        raise OvertakenError(text)
    view.folder.delete(manifest_file(publish.manifest.attempt))
    raise RetriableError(f"{text}. Poll the day again")
