"""Publishes a day into its tables: reserves it in the head, commits to each table, completes it in the head."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_connect.errors import ConfigError, ConnectError, OvertakenError, RetriableError
from airflow_provider_connect.publishing import ledger_row, next_generation, overtaken_error, seen_publish
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta.app_transactions import (
    app_id,
    app_prefix,
    attempt_id,
    commit_metadata,
    publish_transactions,
)
from airflow_provider_connect.sinks._delta.commit import find_newest, flush_log, retry_until_decided
from airflow_provider_connect.sinks._delta.definitions import day_definition_transactions, in_force_transactions
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import add_action, commit, open_table
from airflow_provider_connect.sinks._delta.slots import Slot
from airflow_provider_connect.sinks._delta.sweep import claim_files
from airflow_provider_connect.sinks._delta.table import (
    add_local_time_feature,
    create_table,
    delta_columns,
    merge_columns,
    ownership_problems,
)
from airflow_provider_connect.sinks._delta.tables.head import HeadView, completion_transactions, open_head, reserve_day
from airflow_provider_connect.stage.manifest import StagedFile, manifest_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.stage.tables import TableTemplate, table_folder

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from airflow_provider_connect.sinks._delta.options import DeltaOptions

T = TypeVar("T")
_TOGETHER = 8
"""Number of concurrent commits. On an object store a commit mostly waits."""


@dataclass(frozen=True)
class Reservation:
    """The right of an attempt to publish a day.

    :param tables: every table to commit to.
    :param published_row: the ledger row, if another try of this intent has published meanwhile.
    """

    number: int
    generation: int
    tables: frozenset[str] = frozenset()
    published_row: LedgerRow | None = None


@dataclass(frozen=True)
class TablesCommit:
    """One publish of a day into several tables (:mod:`.`)."""

    options: DeltaOptions
    publish: Publish

    @cached_property
    def _root(self) -> Folder:
        return Folder(self.options.root)

    @cached_property
    def _tables(self) -> TableTemplate:
        assert self.options.tables is not None
        return self.options.tables

    @cached_property
    def _files_by_table(self) -> dict[str, list[StagedFile]]:
        files_by_table: dict[str, list[StagedFile]] = {}
        for file in self.publish.manifest.polled.files:
            files_by_table.setdefault(table_folder(file.path), []).append(file)
        return files_by_table

    def run(self) -> LedgerRow:
        """Publish the day. Returns the ledger row, also if this intent has published before."""
        view = self._open_head_view()
        if (row := self._published_row(view)) is not None:
            return row
        self._next_generation(view)
        claim_files(self._root, view, self.publish)
        self._require_room(view)
        day_tables = self._files_by_table.keys() | view.tables_of_day(self.publish.day.date)
        self._for_tables(lambda name: self._prepare_table(name, is_known=name in view.table_indexes), day_tables)
        reservation = retry_until_decided(self.options.ledger_path, self._reserve)
        if reservation.published_row is not None:
            return reservation.published_row
        self._for_tables(lambda name: self._publish_into(name, reservation), reservation.tables)
        return retry_until_decided(self.options.ledger_path, lambda: self._complete(reservation))

    # The head

    def _open_head_view(self) -> HeadView:
        path = self.options.ledger_path
        table = open_head(self.options)
        if table is None:
            raise ConfigError(f"table {path} was deleted during a publish: clear the task")
        if problems := ownership_problems(table, self.publish.key, path, self._tables.template):
            raise ConfigError("; ".join(problems))
        return HeadView(Folder(path), table, self.publish.key)

    def _published_row(self, view: HeadView) -> LedgerRow | None:
        row = view.published(self.publish.day.date, self.publish.intent.token)
        if row is not None and view.table is not None:
            flush_log(view.folder, view.table)
        return row

    def _next_generation(self, view: HeadView) -> int:
        """Return the generation to publish. Raises an error if the ledger has changed since the attempt's poll."""
        newest = find_newest(view, self.publish, Slot(self.publish.day.date))
        return next_generation(self.publish, newest, erased=erase_version(view.table))

    def _require_room(self, view: HeadView) -> None:
        self._tables.require_room(len(self._files_by_table), f"{self.publish.key} {self.publish.day}")
        self._tables.require_room(
            len(view.table_indexes.keys() | self._files_by_table.keys()), f"path {self.options.path!r}"
        )

    def _reserve(self) -> Reservation | None:
        view, day = self._open_head_view(), self.publish.day.date
        if (row := self._published_row(view)) is not None:
            return Reservation(0, row.generation, published_row=row)
        generation = self._next_generation(view)
        claim_files(self._root, view, self.publish)
        number = view.reservation(day)
        if number and view.reservation_of_attempt(day, self.publish.manifest.attempt) == number:
            assert view.table is not None
            flush_log(view.folder, view.table)
            return Reservation(number, generation, view.tables_of_day(day))
        self._require_room(view)
        number, app_transactions, day_tables = reserve_day(view, self.publish, self._files_by_table)
        app_transactions |= in_force_transactions(self.publish, view.app_transactions, app_prefix(self.publish.key))
        intent = self.publish.intent
        metadata = {
            "connect.reserved_day": str(day),
            "connect.reservation": str(number),
            "connect.attempt": self.publish.manifest.attempt,
            "connect.token": intent.token,
            "connect.run": intent.run,
            "connect.clear_number": str(intent.clear_number),
        }
        if not self._commit_to_head(view, app_transactions, metadata):
            return None
        return Reservation(number, generation, day_tables)

    def _complete(self, reservation: Reservation) -> LedgerRow | None:
        view, day = self._open_head_view(), self.publish.day.date
        if (row := self._published_row(view)) is not None:
            return row
        generation = self._next_generation(view)
        claim_files(self._root, view, self.publish)
        if view.reservation(day) != reservation.number:
            raise self._reservation_lost_error(view, reservation)
        rows = sum(file.rows for file in self.publish.manifest.polled.files)
        row = ledger_row(self.publish, generation, rows=rows)
        app_transactions = publish_transactions(row, self.publish.key, view.transaction)
        app_transactions |= day_definition_transactions(
            self.publish, generation, view.app_transactions, app_id(self.publish.key, day)
        )
        app_transactions |= completion_transactions(view, self.publish, reservation.number, self._files_by_table)
        metadata = commit_metadata(row, self.publish) | {"connect.tables": json.dumps(sorted(self._files_by_table))}
        return row if self._commit_to_head(view, app_transactions, metadata) else None

    def _commit_to_head(self, view: HeadView, app_transactions: dict[str, int], metadata: dict[str, str]) -> bool:
        """Commit to the head. Returns False if it has a newer version."""
        assert view.table is not None
        columns = delta_columns(self.publish.schema)
        fields = merge_columns(view.table, columns, self.options.schema_contract, self.options.ledger_path)
        if add_local_time_feature(view.table, fields):
            return False
        # Only "overwrite" adds new columns, here of no files.
        commit(view.table, app_transactions, metadata, columns=fields, mode="overwrite", day=self.publish.day.date)
        # After a power cut the head would issue a lost number again, although tables have it already.
        flush_log(view.folder, view.table)
        return True

    def _reservation_lost_error(self, view: HeadView, reservation: Reservation) -> ConnectError:
        day, intent = self.publish.day.date, self.publish.intent
        newest, erase_list_version = find_newest(view, self.publish, Slot(day)), erase_version(view.table)
        if seen_publish(newest, erase_list_version) != self.publish.manifest.seen:
            return overtaken_error(self.publish, newest, erase_list_version)
        number = view.reservation(day)
        reserver = view.reservation_metadata(day, number)
        subject, token = f"{self.publish.key} {self.publish.day}", str(reserver.get("connect.token", ""))
        if token == intent.token:
            return RetriableError(
                f"{subject}: another try of {intent.run} has also begun to publish the day (reservation "
                f"{number}), so this try stops"
            )
        run = reserver.get("connect.run")
        is_later_clear = run == intent.run and int(reserver.get("connect.clear_number", 0)) > intent.clear_number
        return OvertakenError(
            f"{subject}: {run or 'another run'} has begun to publish the day (reservation {number}) after this attempt "
            f"(reservation {reservation.number}). The answer staged by {intent.run} may be older and is not completed",
            by=token,
            may_poll_again=not is_later_clear,
        )

    # The tables

    def _for_tables(self, action: Callable[[str], object], names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table") as pool:
            for _ in pool.map(action, sorted(names)):
                pass

    def _open_or_create(self, name: str, *, is_known: bool) -> DeltaTable:
        """Open or create a table.

        :param is_known: the head lists the table, so files without a log mean a lost log.
        :raises ConfigError: the table belongs to another stream, or has unsupported features.
        """
        path, key, template = f"{self.options.root}/{name}", self.publish.key, self._tables.template
        table = open_table(path, may_hold_staged_files=not is_known)
        if table is None:
            table = create_table(path, key, self.publish.schema, template)
        if problems := ownership_problems(table, key, path, template):
            raise ConfigError("; ".join(problems))
        return table

    def _prepare_table(self, name: str, *, is_known: bool) -> None:
        table = self._open_or_create(name, is_known=is_known)
        columns = delta_columns(self.publish.schema) if name in self._files_by_table else {}
        merge_columns(table, columns, "evolve", f"{self.options.root}/{name}")

    def _publish_into(self, name: str, reservation: Reservation) -> None:
        retry_until_decided(f"{self.options.root}/{name}", lambda: self._try_to_publish_into(name, reservation))

    def _try_to_publish_into(self, name: str, reservation: Reservation) -> bool | None:
        """Commit to a table. Returns True if it has the attempt's rows, or None to try again."""
        table = self._open_or_create(name, is_known=True)
        view = LedgerView(Folder(f"{self.options.root}/{name}"), table, self.publish.key)
        table_reservation = view.transaction(self.publish.day.date, "/reservation") or 0
        if (
            table_reservation == reservation.number
            and view.attempt_generation(self.publish.manifest.attempt) == reservation.generation
        ):
            flush_log(view.folder, table)
            return True
        if table_reservation >= reservation.number:
            raise self._refused_by_table_error(name, table_reservation, reservation)
        return self._commit(view, name, reservation) or None

    def _commit(self, view: LedgerView, name: str, reservation: Reservation) -> bool:
        """Commit on exactly this version of a table. Returns False if there is a newer one."""
        table, key, day = view.table, self.publish.key, self.publish.day.date
        assert table is not None
        table_publish = self._publish_of_table(name)
        files = table_publish.manifest.polled.files
        stored_files = claim_files(self._root, view, table_publish)
        row = ledger_row(table_publish, reservation.generation, rows=sum(file.rows for file in files))
        # schema_contract applies to the head only: a table may lack some of the head's columns.
        columns = delta_columns(self.publish.schema) if files else {}
        fields = merge_columns(table, columns, "evolve", view.folder.url)
        if add_local_time_feature(table, fields):
            return False
        app = app_id(key, day)
        app_transactions = {
            app: row.generation,
            f"{app}/rows": row.rows,
            f"{app}/reservation": reservation.number,
            attempt_id(key, table_publish.manifest.attempt): row.generation,
        }
        # An earlier reservation of this attempt may have added them. One commit cannot remove and add a file.
        already_committed = self._has_files(view, name, files)
        actions = (
            []
            if already_committed
            else [
                add_action(_relative_to_table(name, file), table_publish.day.date, stored_files[file.path])
                for file in files
            ]
        )
        commit(
            table,
            app_transactions,
            commit_metadata(row, table_publish) | {"connect.reservation": str(reservation.number)},
            files=actions,
            columns=fields,
            mode="append" if already_committed else "overwrite",
            day=None if already_committed else day,
            # As for a single table: the files of a concurrent compaction would stay.
            retries=0 if any(date == day for date, _, _ in view.files) else 100,
        )
        flush_log(view.folder, table)
        return True

    def _has_files(self, view: LedgerView, name: str, files: Iterable[StagedFile]) -> bool:
        """Return whether the table shows exactly these files for the day.

        :raises RetriableError: it shows some of them, or more.
        """
        day = self.publish.day
        live_paths = {path for date, path, _ in view.files if date == day.date}
        own_paths = {_relative_to_table(name, file).path for file in files}
        if live_paths & own_paths and live_paths != own_paths:
            self._root.delete(manifest_file(self.publish.manifest.attempt))
            raise RetriableError(f"another writer changed {day} in table {view.folder.url}. Poll the day again")
        return bool(own_paths) and live_paths == own_paths

    def _publish_of_table(self, name: str) -> Publish:
        manifest = self.publish.manifest
        polled = manifest.polled.model_copy(update={"files": tuple(self._files_by_table.get(name, ())), "digest": None})
        return replace(self.publish, manifest=manifest.model_copy(update={"polled": polled}))

    def _refused_by_table_error(self, name: str, table_reservation: int, reservation: Reservation) -> ConnectError:
        view = self._open_head_view()
        last = view.reservation(self.publish.day.date)
        if last > reservation.number:
            return self._reservation_lost_error(view, reservation)
        return ConfigError(
            f"table {self.options.root}/{name} has reservation {table_reservation} of {self.publish.day}, but the last "
            f"one of {self.options.ledger_path} is {last}. The log of the latter was lost or set back. Restore it "
            f"as it was, or delete the whole folder {self.options.root} and load it again"
        )


def _relative_to_table(table: str, file: StagedFile) -> StagedFile:
    return file.model_copy(update={"path": file.path.removeprefix(f"{table}/")})
