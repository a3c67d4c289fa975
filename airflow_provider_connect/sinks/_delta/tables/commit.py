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
from airflow_provider_connect.sinks._delta.commit import add_action, find_newest, flush_log, retry_until_decided
from airflow_provider_connect.sinks._delta.definitions import day_definition_transactions, in_force_transactions
from airflow_provider_connect.sinks._delta.erase_list import erase_version
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import commit, open_table
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
"""How many tables are committed to at once: on an object store a commit is mostly waiting."""


@dataclass(frozen=True)
class Reservation:
    """A day that this attempt may publish.

    :param tables: every table to commit to.
    :param published: the ledger's row, if another try of this intent has published meanwhile.
    """

    number: int
    generation: int
    tables: frozenset[str] = frozenset()
    published_row: LedgerRow | None = None


@dataclass(frozen=True)
class TablesCommit:
    """One publish of a day into several tables; :mod:`.` says why its steps are safe."""

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
    def _files(self) -> dict[str, list[StagedFile]]:
        """The staged files of each table that the attempt has rows for."""
        found: dict[str, list[StagedFile]] = {}
        for file in self.publish.manifest.polled.files:
            found.setdefault(table_folder(file.path), []).append(file)
        return found

    def run(self) -> LedgerRow:
        """Publish, or return the ledger's row if this intent has published already."""
        view = self._head()
        if (row := self._published(view)) is not None:
            return row
        self._generation(view)
        claim_files(self._root, view, self.publish)
        self._require_room(view)
        listed = self._files.keys() | view.tables_of_day(self.publish.day.date)
        self._each(lambda name: self._made_ready(name, is_known=name in view.table_indexes), listed)
        reserved = retry_until_decided(self.options.ledger_path, self._reserve)
        if reserved.published_row is not None:
            return reserved.published_row
        self._each(lambda name: self._publish_into(name, reserved), reserved.tables)
        return retry_until_decided(self.options.ledger_path, lambda: self._complete(reserved))

    # The head

    def _head(self) -> HeadView:
        path = self.options.ledger_path
        table = open_head(self.options)
        if table is None:
            raise ConfigError(f"table {path} was deleted during a publish: clear the task")
        if problems := ownership_problems(table, self.publish.key, path, self._tables.template):
            raise ConfigError("; ".join(problems))
        return HeadView(Folder(path), table, self.publish.key)

    def _published(self, view: HeadView) -> LedgerRow | None:
        """Return the row of this intent's own publish, once the log that has it is on the disk."""
        row = view.published(self.publish.day.date, self.publish.intent.token)
        if row is not None and view.table is not None:
            flush_log(view.folder, view.table)
        return row

    def _generation(self, view: HeadView) -> int:
        """Compare what the attempt saw before it polled with this version; return the generation to publish."""
        newest = find_newest(view, self.publish, self.publish.day.date)
        return next_generation(self.publish, newest, erased=erase_version(view.table))

    def _require_room(self, view: HeadView) -> None:
        self._tables.require_room(len(self._files), f"{self.publish.key} {self.publish.day}")
        self._tables.require_room(len(view.table_indexes.keys() | self._files.keys()), f"path {self.options.path!r}")

    def _reserve(self) -> Reservation | None:
        """Take the day's reservation, or find that this attempt has it; None if it must be decided again."""
        view, day = self._head(), self.publish.day.date
        if (row := self._published(view)) is not None:
            return Reservation(0, row.generation, published_row=row)
        generation = self._generation(view)
        claim_files(self._root, view, self.publish)
        number = view.reservation(day)
        if number and view.reservation_of_attempt(day, self.publish.manifest.attempt) == number:
            assert view.table is not None
            flush_log(view.folder, view.table)
            return Reservation(number, generation, view.tables_of_day(day))
        self._require_room(view)
        number, recorded, listed = reserve_day(view, self.publish, self._files)
        recorded |= in_force_transactions(self.publish, view.app_transactions, app_prefix(self.publish.key))
        intent = self.publish.intent
        told = {
            "connect.reserved_day": str(day),
            "connect.reservation": str(number),
            "connect.attempt": self.publish.manifest.attempt,
            "connect.token": intent.token,
            "connect.run": intent.run,
            "connect.clear_number": str(intent.clear_number),
        }
        if not self._record(view, recorded, told):
            return None
        return Reservation(number, generation, listed)

    def _complete(self, reserved: Reservation) -> LedgerRow | None:
        """Write the ledger's row, while the reservation still stands; None if it must be decided again."""
        view, day = self._head(), self.publish.day.date
        if (row := self._published(view)) is not None:
            return row
        generation = self._generation(view)
        claim_files(self._root, view, self.publish)
        if view.reservation(day) != reserved.number:
            raise self._passed(view, reserved)
        rows = sum(file.rows for file in self.publish.manifest.polled.files)
        row = ledger_row(self.publish, generation, rows=rows)
        recorded = publish_transactions(row, self.publish.key, view.transaction)
        recorded |= day_definition_transactions(
            self.publish, generation, view.app_transactions, app_prefix(self.publish.key)
        )
        recorded |= completion_transactions(view, self.publish, reserved.number, self._files)
        told = commit_metadata(row, self.publish) | {"connect.tables": json.dumps(sorted(self._files))}
        return row if self._record(view, recorded, told) else None

    def _record(self, view: HeadView, recorded: dict[str, int], told: dict[str, str]) -> bool:
        """Commit to the head, and flush it to the disk; False if its version has moved on."""
        assert view.table is not None
        columns = delta_columns(self.publish.schema)
        fields = merge_columns(view.table, columns, self.options.schema_contract, self.options.ledger_path)
        if add_local_time_feature(view.table, fields):
            return False
        # "overwrite", of nothing: only so are new columns added.
        commit(view.table, recorded, told, columns=fields, mode="overwrite", day=self.publish.day.date)
        # Numbers that a power cut takes back would be given out again, and tables have them already.
        flush_log(view.folder, view.table)
        return True

    def _passed(self, view: HeadView, reserved: Reservation) -> ConnectError:
        """Return the error for a reservation that another attempt has taken since."""
        day, mine = self.publish.day.date, self.publish.intent
        newest, erased = find_newest(view, self.publish, day), erase_version(view.table)
        if seen_publish(newest, erased) != self.publish.manifest.seen:
            return overtaken_error(self.publish, newest, erased)
        number = view.reservation(day)
        other = view.reservation_metadata(day, number)
        where, token = f"{self.publish.key} {self.publish.day}", str(other.get("connect.token", ""))
        if token == mine.token:
            return RetriableError(
                f"{where}: another try of {mine.run} has begun to publish it as well (reservation {number}); this one "
                f"leaves it alone"
            )
        run = other.get("connect.run")
        is_later_clear = run == mine.run and int(other.get("connect.clear_number", 0)) > mine.clear_number
        return OvertakenError(
            f"{where}: {run or 'another run'} has begun to publish it (reservation {number}) since this attempt did "
            f"(reservation {reserved.number}); what {mine.run} staged may be the older answer and is not completed",
            by=token,
            may_poll_again=not is_later_clear,
        )

    # The tables

    def _each(self, act: Callable[[str], object], names: Iterable[str]) -> None:
        """Act on tables, several at once; after an error no further one is begun."""
        with ThreadPoolExecutor(_TOGETHER, thread_name_prefix="table") as pool:
            for _ in pool.map(act, sorted(names)):
                pass

    def _open(self, name: str, *, is_known: bool) -> DeltaTable:
        """Return a table at its newest version; it is made if it is missing.

        :param is_known: whether it was in the head's list before: then files without a log are a lost log.
        :raises ConfigError: it belongs to another stream, or this sink cannot write it.
        """
        path, key, template = f"{self.options.root}/{name}", self.publish.key, self._tables.template
        table = open_table(path, may_hold_staged_files=not is_known)
        if table is None:
            table = create_table(path, key, self.publish.schema, template)
        if problems := ownership_problems(table, key, path, template):
            raise ConfigError("; ".join(problems))
        return table

    def _made_ready(self, name: str, *, is_known: bool) -> None:
        """Make a table if it is missing, and find what would fail its commit, before anything is reserved."""
        table = self._open(name, is_known=is_known)
        columns = delta_columns(self.publish.schema) if name in self._files else {}
        merge_columns(table, columns, "evolve", f"{self.options.root}/{name}")

    def _publish_into(self, name: str, reserved: Reservation) -> None:
        """Replace a table's rows of the day by the attempt's, or by none."""
        retry_until_decided(f"{self.options.root}/{name}", lambda: self._try_to_publish_into(name, reserved))

    def _try_to_publish_into(self, name: str, reserved: Reservation) -> bool | None:
        """Commit to a table; None if it must be decided again."""
        table = self._open(name, is_known=True)
        view = LedgerView(Folder(f"{self.options.root}/{name}"), table, self.publish.key)
        there = view.transaction(self.publish.day.date, "/reservation") or 0
        if there == reserved.number and view.attempt_generation(self.publish.manifest.attempt) == reserved.generation:
            flush_log(view.folder, table)
            return True
        if there >= reserved.number:
            raise self._refused(name, there, reserved)
        return self._commit(view, name, reserved) or None

    def _commit(self, view: LedgerView, name: str, reserved: Reservation) -> bool:
        """Commit on top of exactly this version; False if the table has a newer one."""
        table, key, day = view.table, self.publish.key, self.publish.day.date
        assert table is not None
        part = self._part(name)
        files = part.manifest.polled.files
        found = claim_files(self._root, view, part)
        row = ledger_row(part, reserved.generation, rows=sum(file.rows for file in files))
        # Here columns are never frozen out: a table may lack some that the head has.
        columns = delta_columns(self.publish.schema) if files else {}
        fields = merge_columns(table, columns, "evolve", view.folder.url)
        if add_local_time_feature(table, fields):
            return False
        app = app_id(key, day)
        recorded = {
            app: row.generation,
            f"{app}/rows": row.rows,
            f"{app}/reservation": reserved.number,
            attempt_id(key, part.manifest.attempt): row.generation,
        }
        # An earlier reservation of this attempt may have brought them in; a commit cannot remove and add one file.
        are_in = self._are_in(view, name, files)
        actions = [] if are_in else [add_action(_in(name, file), part, found[file.path]) for file in files]
        commit(
            table,
            recorded,
            commit_metadata(row, part) | {"connect.reservation": str(reserved.number)},
            files=actions,
            columns=fields,
            mode="append" if are_in else "overwrite",
            day=None if are_in else day,
            # As where there is one table: the files of a compaction that came between would stay.
            retries=0 if any(date == day for date, _, _ in view.files) else 100,
        )
        flush_log(view.folder, table)
        return True

    def _are_in(self, view: LedgerView, name: str, files: Iterable[StagedFile]) -> bool:
        """Whether the files are what the table shows of the day already.

        :raises RetriableError: it shows some of them, or others beside them.
        """
        day = self.publish.day
        live = {path for date, path, _ in view.files if date == day.date}
        mine = {_in(name, file).path for file in files}
        if live & mine and live != mine:
            self._root.delete(manifest_file(self.publish.manifest.attempt))
            raise RetriableError(f"somebody else changed {day} in table {view.folder.url}: poll the day again")
        return bool(mine) and live == mine

    def _part(self, name: str) -> Publish:
        """Return the publish of one table's rows alone."""
        manifest = self.publish.manifest
        polled = manifest.polled.model_copy(update={"files": tuple(self._files.get(name, ())), "digest": None})
        return replace(self.publish, manifest=manifest.model_copy(update={"polled": polled}))

    def _refused(self, name: str, there: int, reserved: Reservation) -> ConnectError:
        """Return the error for a table that has a later reservation, or another attempt's of the same number."""
        view = self._head()
        last = view.reservation(self.publish.day.date)
        if last > reserved.number:
            return self._passed(view, reserved)
        return ConfigError(
            f"table {self.options.root}/{name} has reservation {there} of {self.publish.day}, and the last one of "
            f"{self.options.ledger_path} is {last}: that table's log was lost or set back: restore it as it was; or "
            f"delete {self.options.root} whole and load it again"
        )


def _in(table: str, file: StagedFile) -> StagedFile:
    """Return a file with its path as the table's log has it."""
    return file.model_copy(update={"path": file.path.removeprefix(f"{table}/")})
