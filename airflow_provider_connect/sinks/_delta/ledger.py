"""The ledger of a Delta table: transactions in its log, with details from its history."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.ledger import day_row
from airflow_provider_connect.sink import LedgerRow, StreamKey
from airflow_provider_connect.sinks._delta import definitions
from airflow_provider_connect.sinks._delta.app_transactions import (
    CONFIRMED_FIELDS,
    HALF_BITS,
    MICROSECOND,
    UNIX_EPOCH,
    FindTransaction,
    app_id,
    app_prefix,
    attempt_id,
    check_version,
    deleted_file_id,
    kept_out_counts,
)
from airflow_provider_connect.sinks._delta.log import read_transactions, translate_log_errors
from airflow_provider_connect.sinks._delta.slots import (
    FILE_SUFFIX,
    DayFiles,
    LiveFile,
    Slot,
    slots_with_spans,
    span_suffix,
    suffix_of_file,
)
from airflow_provider_connect.sinks._delta.table import OWNER_PROPERTY
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import DaySet

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


_EPOCH = dt.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(eq=False)
class LedgerView:
    """One stream's ledger in one version of the table."""

    folder: Folder
    table: DeltaTable | None
    key: StreamKey

    def transaction(self, day: dt.date, suffix: str = "") -> int | None:
        """Return the version of a day's transaction, or None.

        :param suffix: end of its id.
        """
        return self.app_transactions.get(f"{self._prefix}{day}{suffix}")

    @cached_property
    def _prefix(self) -> str:
        return app_prefix(self.key)

    def published_rows(self, day: dt.date) -> int:
        """Return the number of a day's rows by the ledger. 0 if not published."""
        if day not in self.span_slots:
            return self.transaction(day, "/rows") or 0
        return sum(self.transaction(day, f"{slot.suffix}/rows") or 0 for slot in self.slots_of(day))

    def finder(self, slot: Slot) -> FindTransaction:
        """Return :meth:`transaction` for the suffixes of one slot."""
        return lambda day, suffix: self.transaction(day, slot.suffix + suffix)

    def polled_at(self, slot: Slot) -> dt.datetime | None:
        """Return when a slot's newest answer was polled (UTC), or None if not recorded."""
        microseconds = self.transaction(slot.day, f"{slot.suffix}/polled")
        return UNIX_EPOCH + MICROSECOND * microseconds if microseconds else None

    def checks(self, day: dt.date, generation: int) -> int:
        """Return how often a day's generation was confirmed. 0 for an older generation."""
        checked_generation, checks = divmod(self.transaction(day, "/checks") or 0, check_version(1, 0))
        return checks if checked_generation == generation else 0

    def answer(self, day: dt.date, generation: int) -> str | None:
        """Return the digest of the answer that a day's newest generation published, or None."""
        halves = [self.transaction(day, f"/answer/{half}") for half in ("high", "low")]
        if self.transaction(day, "/answer") != generation or None in halves:
            return None
        return "".join(f"{half % (1 << HALF_BITS):016x}" for half in halves if half is not None)

    def attempt_generation(self, attempt: str) -> int | None:
        """Return the generation that an attempt published, or :data:`.SWEPT` if a sweep has closed it."""
        return self.app_transactions.get(attempt_id(self.key, attempt))

    def deleted_file_number(self, attempt: str) -> int | None:
        """Return the number of an attempt's published file of deleted rows, 0 if it has none, None if unknown."""
        return self.app_transactions.get(deleted_file_id(self.key, attempt))

    @cached_property
    def app_transactions(self) -> dict[str, int]:
        """The stream's transactions: id to version."""
        if self.table is None:
            return {}
        return read_transactions(self.folder, self.table.version(), app_prefix(self.key))

    def predecessor(self, day: dt.date, span: Span | None = None, *, replaces_whole: bool = False) -> Slot:
        """Return the slot whose newest publish the next publish of ``day`` must follow. It may have none yet.

        For a snapshot of the whole table, this is the slot of the stream's newest day. For an increment, it is the slot
        of its span or, for a new span, of the stream's newest span.
        """
        if span is None:
            newest_day = max(self.days(), default=day) if replaces_whole else day
            return next(iter(self.slots_of(newest_day)), Slot(newest_day))
        if self.transaction(day) is not None and day not in self.span_slots:
            return Slot(day)  # a publish without a span, which no increment can follow
        slots = [slot for day_slots in self.span_slots.values() for slot in day_slots]
        return next((slot for slot in slots if slot.number == span.number), self.last_slot or Slot(day))

    def increment_to_follow(self, day: dt.date, run: str) -> Slot:
        """Return the slot that a run's increment follows, see :meth:`.Ledger.newest_increment`."""
        for slot in self.slots_of(day):
            if slot.span is None:
                return slot
            if self.transaction(day, f"{slot.suffix}/run/{run}") is not None:
                return slot._replace(span=slot.span.model_copy(update={"run": run}))
        return self.last_slot or Slot(day)

    @cached_property
    def span_slots(self) -> dict[dt.date, list[Slot]]:
        """The slots of each day that increments loaded, in the order of their numbers."""
        return slots_with_spans(self.app_transactions, app_prefix(self.key))

    @property
    def last_slot(self) -> Slot | None:
        """The slot of the stream's newest span, or None without an increment."""
        return max((slots[-1] for slots in self.span_slots.values()), key=lambda slot: slot.number, default=None)

    def slots_of(self, day: dt.date) -> list[Slot]:
        """Return the slots of a published day: one, or one for each span. Empty if the day is not published."""
        if self.transaction(day) is None:
            return []
        return self.span_slots.get(day, [Slot(day)])

    def slot_for(self, day: dt.date, span: Span | None) -> Slot:
        """Return the slot into which a publish goes: its span's, or else a new one."""
        slots = self.slots_of(day)
        if span is None or not slots:
            return Slot(day, span=span)
        own_slot = next((slot for slot in slots if slot.number == span.number), None)
        return own_slot or Slot(day, span_suffix(span.number), span)

    def files_of(self, slot: Slot) -> list[LiveFile]:
        """Return the live files with a slot's rows.

        :raises ConfigError: another writer has put the rows of several slots into one file.
        """
        slots = self.slots_of(slot.day)
        day_files = DayFiles(
            [file for file in self.files if file[0] == slot.day],
            {known.suffix: self.transaction(slot.day, f"{known.suffix}/rows") or 0 for known in slots},
            self._suffix_by_attempt(slots),
        )
        return day_files.of_slot(slot, self.folder.url)

    def files_with_slots(self) -> list[tuple[dt.date, str, Slot | None]]:
        """Return day, path and slot of each file of :attr:`files`.

        The slot is None for another writer's file, which may hold rows of several slots.
        """
        suffixes: dict[dt.date, dict[str, str]] = {}
        result: list[tuple[dt.date, str, Slot | None]] = []
        for file in self.files:
            slots = self.slots_of(file[0])
            if file[0] not in suffixes:
                suffixes[file[0]] = self._suffix_by_attempt(slots)
            suffix = suffix_of_file(file, suffixes[file[0]]) if len(slots) > 1 else ""
            result.append((file[0], file[1], next((slot for slot in slots if slot.suffix == suffix), None)))
        return result

    def _suffix_by_attempt(self, slots: Sequence[Slot]) -> dict[str, str]:
        """Return the slot's suffix of each attempt that the ledger records with one of a day's slots."""
        return {
            app.removeprefix(prefix): slot.suffix
            for slot in slots
            for prefix in [f"{app_id(self.key, slot.day)}{slot.suffix}{FILE_SUFFIX}"]
            for app in (self.app_transactions if len(slots) > 1 else ())
            if app.startswith(prefix)
        }

    @property
    def last_snapshot_day(self) -> dt.date:
        """Day of the last snapshot of the whole table, or the earliest date. Earlier days may be empty."""
        snapshot_date = self.app_transactions.get(f"{app_prefix(self.key)}snapshot")
        return dt.date.min if snapshot_date is None else dt.date.fromisoformat(str(snapshot_date))

    def newest(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return the ledger row of a day's newest publish, or None.

        Reads only transactions, since the history takes a request for every commit.

        :param run: copied into the row if this run made or last confirmed that publish.
        """
        return day_row([row for slot in self.slots_of(day) if (row := self.newest_of(slot, run)) is not None])

    def newest_of(self, slot: Slot, run: str | None = None) -> LedgerRow | None:
        """Return the ledger row of a slot's newest publish, like :meth:`newest`."""
        day, find_transaction = slot.day, self.finder(slot)
        generation = find_transaction(day, "")
        if generation is None:
            return None
        checks = 0 if slot.suffix else self.checks(day, generation)
        if checks:
            is_this_run = self.transaction(day, f"/check/{run}") == check_version(generation, checks)
        else:
            is_this_run = find_transaction(day, f"/run/{run}") == generation
        return LedgerRow(
            day=day,
            generation=generation,
            checks=checks,
            token="",
            rows=find_transaction(day, "/rows") or 0,
            run=run if is_this_run else None,
            clear_number=find_transaction(day, "/clear") or 0,
            answer=None if slot.suffix else self.answer(day, generation),
            counts=kept_out_counts(find_transaction, day),
            span=slot.span,
            definition=definitions.definition_of_day(self.app_transactions, app_id(self.key, day, slot.suffix)),
        )

    def row(self, day: dt.date, run: str | None = None) -> LedgerRow | None:
        """Return :meth:`newest`, with details from the log's history if it still has the commit."""
        return day_row([row for slot in self.slots_of(day) if (row := self.row_of(slot, run)) is not None])

    def row_of(self, slot: Slot, run: str | None = None) -> LedgerRow | None:
        """Return :meth:`newest_of`, with details from the log's history if it still has the commit."""
        day, newest = slot.day, self.newest_of(slot, run)
        if newest is None or (row := self._from_history(slot, newest.generation)) is None:
            return newest
        row = row.model_copy(update={"definition": newest.definition})  # an erase records none
        if not newest.checks:
            return row
        confirmation = self._confirmation(day, checks=newest.checks, generation=newest.generation)
        return row.model_copy(update=confirmation or newest.model_dump(include={*CONFIRMED_FIELDS}))

    def published(self, day: dt.date, token: str) -> LedgerRow | None:
        """Return the ledger row that an intent published or confirmed, or None. ``token`` names the intent."""
        for slot in self.slots_of(day):
            generation = self.transaction(day, f"{slot.suffix}/token/{token}")
            if generation is not None:
                return self._published_row(slot, generation, token)
        return None

    def _published_row(self, slot: Slot, generation: int, token: str) -> LedgerRow:
        day, newest = slot.day, self.newest_of(slot)
        assert newest is not None
        # Transactions hold the rows of the newest publish only. Older ones are lost with their commit's log entry.
        row = self._from_history(slot, generation) or newest.model_copy(update={"generation": generation})
        confirmation = self._confirmation(day, token=token, generation=generation)
        return row.model_copy(update=confirmation or {"token": token})

    def _from_history(self, slot: Slot, generation: int) -> LedgerRow | None:
        for commit in self._commits_of(slot.day, generation=generation):
            if "connect.counts" in commit:
                fields = _fields(commit, LedgerRow.model_fields)
                parsed = {name: json.loads(fields[name]) for name in ("counts", "span") if name in fields}
                row = LedgerRow.model_validate(fields | parsed)
                if slot.span is None or row.span_number == slot.number:
                    return row
        return None

    def _confirmation(self, day: dt.date, **metadata: Any) -> dict[str, Any] | None:
        for commit in self._commits_of(day, **metadata):
            if "connect.counts" not in commit:
                row = LedgerRow.model_validate(_fields(commit, ("day", "generation", *CONFIRMED_FIELDS)) | {"rows": 0})
                return row.model_dump(include={*CONFIRMED_FIELDS})
        return None

    def _commits_of(self, day: dt.date, **metadata: Any) -> Iterator[dict[str, Any]]:
        expected = {"connector": self.key.connector, "stream": self.key.stream, "day": day, **metadata}
        for commit in self.commits:
            if all(commit.get(f"connect.{name}") == str(value) for name, value in expected.items()):
                yield commit

    def days(self) -> DaySet:
        """Return all published days, also empty ones."""
        if not self.belongs_to_stream:
            return DaySet()
        prefix = self._prefix
        day_length = len(prefix) + len("2026-11-01")  # a ledger of many days has very many ids, most of them longer
        names = (app.removeprefix(prefix) for app in self.app_transactions if len(app) == day_length)
        return DaySet.from_dates(dt.date.fromisoformat(name) for name in names if _DATE.fullmatch(name))

    @property
    def belongs_to_stream(self) -> bool:
        """Whether the table exists and belongs to this stream."""
        return self.table is not None and self.table.metadata().configuration.get(OWNER_PROPERTY) == str(self.key)

    @cached_property
    def commits(self) -> list[dict[str, Any]]:
        """Metadata of the log's commits, newest first."""
        if self.table is None:
            return []
        with translate_log_errors(self.table):
            return self.table.history()

    @cached_property
    def files(self) -> list[LiveFile]:
        """Day, path and number of rows of each file of this version. The number is None if the writer gave none.

        Leaves out other writers' files without a day, or with a day outside Python's calendar.
        """
        return [(day, action["path"], action["num_records"]) for day, action in self._dated_actions()]

    def file_sizes(self) -> dict[str, int]:
        """Return the bytes of each file of :attr:`files`, by path."""
        return {action["path"]: action["size_bytes"] for _, action in self._dated_actions()}

    def file_statistics(self, columns: Iterable[str]) -> list[tuple[dt.date, str, dict[str, Any]]]:
        """Return each file of :attr:`files` with the log's bounds ``min.<column>`` and ``max.<column>``."""
        # The log's "min.a.b" may be of a struct.
        names = [f"{bound}.{column}" for column in columns if "." not in column for bound in ("min", "max")]
        return [
            (day, action["path"], {name: action.get(name) for name in names})
            for day, action in self._dated_actions(names)
        ]

    def _dated_actions(self, names: Iterable[str] = ()) -> list[tuple[dt.date, dict[str, Any]]]:
        """Return day and log entry of each file.

        :param names: further columns of the entries.
        """
        if self.table is None:
            return []
        import pyarrow as pa

        actions = self._add_actions
        ordinals = actions["partition.day"].cast(pa.int32()).to_pylist()
        present = [name for name in ("path", "num_records", "size_bytes", *names) if name in actions.column_names]
        return [
            (dt.date.fromordinal(ordinal + _EPOCH), action)
            for ordinal, action in zip(ordinals, actions.select(present).to_pylist(), strict=True)
            if ordinal is not None and 0 < ordinal + _EPOCH <= dt.date.max.toordinal()
        ]

    @cached_property
    def _add_actions(self) -> pa.Table:
        import pyarrow as pa

        assert self.table is not None
        with translate_log_errors(self.table):
            return pa.table(self.table.get_add_actions(flatten=True))

    @cached_property
    def column_types(self) -> dict[str, pa.DataType]:
        """Arrow types of the table's columns by name."""
        import pyarrow as pa

        assert self.table is not None
        return {field.name: field.type for field in pa.schema(self.table.schema().to_arrow())}


def _fields(commit: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    values = {name: commit.get(f"connect.{name}") for name in names}
    return {name: value for name, value in values.items() if value not in (None, "None")}
