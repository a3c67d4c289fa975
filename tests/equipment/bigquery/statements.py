"""Every SQL text that the BigQuery sink can make, over tables and columns with odd names."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.columns.schema import DAY_FIELD, compare_schema
from airflow_provider_connect.sinks._bigquery.columns.types import Field, make_columns
from airflow_provider_connect.sinks._bigquery.decision import confirm_script
from airflow_provider_connect.sinks._bigquery.differences import differences_query, is_reload
from airflow_provider_connect.sinks._bigquery.erase_list import (
    LIST_FIELDS,
    empty_list_statements,
    erase_list_table,
    extend_list_script,
    read_erase_list,
)
from airflow_provider_connect.sinks._bigquery.erasing.script import (
    EraseSearch,
    MatchCount,
    SearchedTable,
    count_query,
    delete_tombstones_script,
    erase_script,
    row_after_erase,
)
from airflow_provider_connect.sinks._bigquery.ledger import BigQueryLedger, ensure_ledger
from airflow_provider_connect.sinks._bigquery.ledger_rows import LEDGER_FIELDS, SPAN_FIELD
from airflow_provider_connect.sinks._bigquery.merge.write_mode import require_write_mode
from airflow_provider_connect.sinks._bigquery.names import POSITION_COLUMN, TABLE_COLUMN
from airflow_provider_connect.sinks._bigquery.notes import (
    NOTE_FIELDS,
    note_statement,
    notes_table,
    position_query,
    positions_table,
)
from airflow_provider_connect.sinks._bigquery.partitions import range_table_advice, row_partition_sql
from airflow_provider_connect.sinks._bigquery.plan import LedgerStep, PublishPlan, make_publish_plan
from airflow_provider_connect.sinks._bigquery.preflight import require_no_streamed_rows, require_only_snapshot_rows
from airflow_provider_connect.sinks._bigquery.problems import target_problems
from airflow_provider_connect.sinks._bigquery.rejects import (
    REJECT_FIELDS,
    STAGED_REJECT_FIELDS,
    RejectTables,
    count_rejects,
    rejects_by_day,
)
from airflow_provider_connect.sinks._bigquery.script import publish_script
from airflow_provider_connect.sinks._bigquery.staging import StagingLayout, TableChange, staging_table_for
from airflow_provider_connect.sinks._bigquery.tables import TargetTables, tombstone_fields
from airflow_provider_connect.sinks._bigquery.target import MARK_FIELDS, PreparedTarget, patch_schema, set_types
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.stage.key_digest import RECORD_KEY
from airflow_provider_connect.stage.manifest import Manifest, PollResult, SeenPublish
from airflow_provider_connect.stage.notes import LedgerNote, position_note
from airflow_provider_connect.stage.spans import Span
from airflow_provider_connect.window import Day, SourceKind
from tests.equipment.bigquery.recorder import Recorder

DAY = dt.date(2026, 9, 1)
NOON = dt.datetime(2026, 9, 2, 12, tzinfo=dt.UTC)
KEY = StreamKey(connector="mixpanel", stream='export\'s \\ "stream"\n')
ODD_NAMES = (
    *("s", "t", "n", "rows", "value", "key", "select", "group", "Größe", "größe", "a b", "Day", "Doc", "tArget"),
    *("version", "states", "one", "name", "part", "made", "theirs", "newest", "seen", "outcome", "vanished"),
    *("connect_t", "Connect_S", "connect_n", "connect_newest_day", "connect_people", "connect_stream"),
)
"""Names of columns: that the sink's SQL had or has for something else, reserved words, and names that differ little."""
_NUMBERS = pa.struct([pa.field("connect_element0", pa.int64()), pa.field("connect_offset0", pa.int64())])
_FIELDS = (
    pa.field(RECORD_KEY, pa.string(), nullable=False),
    pa.field("id", pa.int64()),
    pa.field("gone", pa.bool_()),
    pa.field("score", pa.float64()),
    pa.field("at", pa.timestamp("us", "UTC")),
    pa.field("doc", pa.string(), metadata={"json": "checked"}),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("wide", pa.int64()),
    pa.field("widened", pa.list_(pa.int64())),
    pa.field("record", _NUMBERS),
    pa.field("records", pa.list_(_NUMBERS)),
)
_WIDER = {"wide": "NUMERIC", "widened": "BIGNUMERIC"}


@dataclass(frozen=True)
class World:
    """Target of some name and options, its sibling tables, and the SQL that a stream's days need there.

    :param table: the target's name. The head of a template has a name made from it.
    :param names: of the source's columns, besides those of every type.
    :param kind: of the source's rows.
    :param filter_column: the column that every query on the target must filter by.
    :param options: of the sink, without ``table``.
    :param parts: the tables of a template.
    :param rejects: whether rows were set aside.
    :param marked: whether the target has the columns of soft deletes although no publish deletes softly.
    :param fields: the columns that are not texts.
    """

    table: str = "events"
    names: tuple[str, ...] = ()
    kind: SourceKind = "day"
    filter_column: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    parts: tuple[str, ...] = ()
    rejects: bool = False
    marked: bool = False
    fields: tuple[pa.Field, ...] = _FIELDS

    @cached_property
    def schema(self) -> pa.Schema:
        """The source's columns."""
        known = {one.name for one in self.fields}
        return pa.schema([*self.fields, *(pa.field(name, pa.string()) for name in self.names if name not in known)])

    @cached_property
    def tables(self) -> TargetTables:
        """The target and its sibling tables."""
        table = f"some-project.d.{self.table}"
        if self.parts:
            table = "some-project.d.{event}"
        return TargetTables(BigQuerySink(table=table, **dict(self.options)), "some-project")

    @cached_property
    def existing(self) -> list[Field]:
        """The target's fields: as an earlier version of the source made them, with wider numbers."""
        made = [dict(column.target) for column in make_columns(self.schema)]
        for one in made:
            one["type"] = _WIDER.get(one["name"], one["type"])
            if one["type"] == "RECORD":
                one["fields"] = [{"name": "of_the_table", "type": "DATE", "mode": "NULLABLE"}, *one["fields"][::-1]]
                one["fields"][1] = {**one["fields"][1], "type": "NUMERIC"}
        return [*made, DAY_FIELD]

    @cached_property
    def staging(self) -> StagingLayout:
        """Staging layout of an attempt."""
        target = self.tables.target
        plan = compare_schema(target.id, self.existing, make_columns(self.schema, self.existing), "evolve")
        staging_table = staging_table_for(self.tables.staging, "a1")
        softly = self.tables.options.deletes_softly(self.kind)
        parts = tuple(TableChange(name, self.filter_column, True, True, True) for name in self.parts)
        return StagingLayout(
            staging_table,
            staging_table.sibling(f"{staging_table.table}_rejects") if self.rejects else None,
            plan.written_columns,
            plan.written_columns,
            "storage_write",
            position_column=POSITION_COLUMN if self.tables.options.write_mode == "merge" else None,
            table_column=TABLE_COLUMN if self.parts else None,
            filter_column=self.filter_column,
            table_changes=parts or None,
            has_delete_marks=softly or self.marked,
        )

    @cached_property
    def publish(self) -> Publish:
        """A day that was published before."""
        manifest = Manifest(
            day=Day(date=DAY),
            attempt="a1",
            fingerprint="f",
            polled=PollResult(rows_read=7, digest="0" * 32),
            seen=SeenPublish(day=DAY, generation=2, checks=1, erased=1, span=2 if self.kind == "increment" else None),
            polled_at=NOON,
            span=Span(number=2, after="1", to="2") if self.kind == "increment" else None,
        )
        intent = Intent(token="a token", run="dag/run/task")
        seen = {"definition": "a" * 15, "definition_seen": "b" * 15}
        return Publish(KEY, manifest.day, intent, manifest, self.schema, "", kind=self.kind, answer="0" * 32, **seen)

    @cached_property
    def plan(self) -> PublishPlan:
        """Changes of the publish."""
        made = self.staging
        number = self.publish.manifest.span_number
        rejects = RejectTables(self.tables.rejects, made.rejects, 2, number) if self.rejects else None
        return make_publish_plan(self.tables, self.publish, made, ("a/stream",), rejects)

    def known(self) -> dict[TableRef, list[Field]]:
        """Return the fields of every table, as BigQuery has them."""
        tables, made, plan = self.tables, self.staging, self.plan
        marks = MARK_FIELDS if made.has_delete_marks else []
        spans = [SPAN_FIELD] if plan.marks_spans else []
        pseudo = [{"name": self.filter_column, "type": "TIMESTAMP"}] if self.filter_column == "_PARTITIONTIME" else []
        known = {
            tables.ledger: LEDGER_FIELDS,
            tables.rejects: REJECT_FIELDS if plan.span_number is None else [*REJECT_FIELDS, SPAN_FIELD],
            made.table: made.fields,
            erase_list_table(tables.target): LIST_FIELDS,
            notes_table(tables.target): NOTE_FIELDS,
            positions_table(tables.target): NOTE_FIELDS,
            **{table_ref: [*self.existing, *marks, *spans, *pseudo] for table_ref in plan.changed_tables},
        }
        if made.rejects is not None:
            known[made.rejects] = STAGED_REJECT_FIELDS
        if plan.merge is not None and plan.merge.tombstones is not None:
            known[plan.merge.tombstones] = tombstone_fields(plan.merge, plan.layout.columns)
        return known

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """All SQL of the world."""
        return (
            *self.of_publish(),
            *self.of_ledger(),
            *self.of_preflight(),
            *self.of_erase("id" if len(self.fields) > 1 else RECORD_KEY),
        )

    def of_publish(self) -> Iterator[str]:
        """Yield the SQL of a day's publish: counts of a reload, the script, a confirmation."""
        if is_reload(self.plan):
            yield differences_query(self.plan)
        yield publish_script(self.plan)
        if self.kind != "day":
            return  # no run looks back at snapshots and increments
        step = LedgerStep(
            target=self.plan.target,
            staging=self.tables.staging,
            ledger=self.plan.ledger,
            publish=self.publish,
            replaces_whole=self.plan.replaces_whole,
        )
        yield confirm_script(step)

    @property
    def recorder(self) -> Recorder:
        """A BigQuery with the world's tables."""
        return Recorder({table_ref.id: self._table(table_ref, fields) for table_ref, fields in self.known().items()})

    def _table(self, table_ref: TableRef, fields: list[Field]) -> Any:
        from google.cloud import bigquery

        table = bigquery.Table(table_ref.id, [bigquery.SchemaField.from_api_repr(field) for field in fields])
        table._properties["type"] = "TABLE"
        if table_ref in self.plan.changed_tables and self.filter_column is not None:
            by = None if self.filter_column == "_PARTITIONTIME" else self.filter_column
            if self.tables.options.partition_type == "range":
                ranges = bigquery.PartitionRange(start=0, end=100, interval=10)
                table.range_partitioning = bigquery.RangePartitioning(ranges, field=by)
            else:
                table.time_partitioning = bigquery.TimePartitioning(field=by)
            table.require_partition_filter = True
            table._properties["streamingBuffer"] = {"estimatedRows": "1"}
        return table

    def of_ledger(self) -> Iterator[str]:
        """Yield the SQL that makes and reads the ledger, the erase list and the rejects."""
        api, tables = self.recorder, self.tables
        where = {"target": tables.target, "ledger": tables.ledger, "key": KEY}
        ledger = BigQueryLedger(api, **where, replaces_whole=self.plan.replaces_whole)
        read_all(ledger)
        ledger.tables_with_rows()
        ledger.tables_with_rows(DAY, 2)
        for fences, listed in ((0, 0), (1, 2)):
            api.answer = {"fences": fences, "strangers": 0, "entries": 1, "erased": None, "listed": listed}
            ensure_ledger(api, tables.ledger, tables.target, KEY)
        api.answer = {"version": 1, "entries": 1, "column_name": "id", "salt": "5a", "digest": "d"}
        api.answer |= {"connector": "c", "stream": "s", "shaping": None}
        erased = read_erase_list(api, tables.target, 1)
        api.queries.append(empty_list_statements(tables.ledger, tables.target))
        longer, lists = (
            erased.model_copy(update={"version": 2}),
            {"ledger": tables.ledger, "target": tables.target, "key": KEY},
        )
        api.queries.append(extend_list_script(**lists, new_list=longer, added_digests=["e'e"]))
        note = LedgerNote(kind="alarm", id="0" * 15, noted_at=NOON, run="r", content={"a": 1})
        api.queries.append(note_statement(tables.target, KEY, note))
        position = position_note("1,2", "r")
        api.queries.append(note_statement(tables.target, KEY, position))
        api.queries.append(position_query(tables.target, KEY, position.id))
        api.answer = {"found": 0}
        count_rejects(api, tables.rejects)
        api.answer = None
        for records in (0, 3):
            rejects_by_day(api, tables.rejects, KEY, (DAY, DAY), records)
        yield from api.queries

    def of_preflight(self) -> Iterator[str]:
        """Yield the SQL of the checks before the poll and of schema changes."""
        api, tables, target = self.recorder, self.tables, self.tables.target
        table = api.tables[target.id]
        ready = PreparedTarget(self.staging.columns, self.filter_column, (), table)
        target_problems(api, tables, self.schema, creates_probe=False)
        with suppress(RetriableError):
            require_no_streamed_rows(api, target, ready, [DAY], "replace")
        patch_schema(api, table, target, self.existing, [column.name for column in ready.columns])
        set_types(api, target, [(field["name"], "BIGNUMERIC") for field in self.existing if field["type"] == "NUMERIC"])
        if tables.options.write_mode == "merge":  # a table of earlier versions, which set no label
            published: Any = SimpleNamespace(days=lambda: [DAY])
            require_write_mode(api, tables, published, ready)
        if not self.parts and self.plan.replaces_whole:
            ledger = BigQueryLedger(api, target, tables.ledger, KEY, replaces_whole=True)
            api.answers = [None, {"kept": 0}]
            require_only_snapshot_rows(api, tables, ledger, ready)
        by_hand = re.findall(r"CREATE TABLE .*\)(?=;)", range_table_advice(target.sibling(f"{target.table}_new"), "id"))
        api.queries += [text.replace("first, end, step", "0, 10, 1") for text in by_hand]
        yield from api.queries

    def of_erase(self, column: str) -> Iterator[str]:
        """Yield the SQL of an erase.

        :param column: of the target, identifies people.
        """
        api, tables, plan = self.recorder, self.tables, self.plan
        places = [table_ref for table_ref in plan.changed_tables if table_ref != tables.target or not self.parts]
        softly = self.staging.has_delete_marks
        kind = next(field["type"] for field in self.existing if field["name"] == column)
        searched = [
            SearchedTable(table_ref, column, self.filter_column, partition, softly, kind, plan.marks_spans)
            for table_ref in places
            for partition in [row_partition_sql(api.tables[table_ref.id])]
        ]
        searched.append(SearchedTable(tables.rejects, None))  # a table without the column
        wanted = EraseSearch(tables.target, tuple(searched), "5a17", ("u'1", "u2"))
        yield count_query(wanted)
        counted = {
            DAY: MatchCount(
                1, 1, matching_tables=tuple(table_ref.table for table_ref in places), other_tables=(places[0].table,)
            )
        }
        before = LedgerRow(day=DAY, generation=4, checks=2, token="t", rows=9, polled_at=NOON)
        rows = [row_after_erase(before, counted[DAY], token="erase1-0", run="erase/1")]
        of_days: dict[str, Any] = {
            "day_counts": counted,
            "new_rows": rows,
            "followed_rows": [before],
            "list_version": 1,
        }
        for last_day in (None, DAY):
            yield erase_script(wanted, tables.ledger, KEY, **of_days, last_day=last_day)
        if plan.merge is not None and plan.merge.tombstones is not None and column in plan.merge.key:
            yield delete_tombstones_script(replace(wanted, tables=(SearchedTable(plan.merge.tombstones, column),)))


def read_all(ledger: BigQueryLedger) -> None:
    """Read a ledger in every way."""
    ledger.row(DAY)
    ledger.between(DAY, DAY)
    kinds: tuple[SourceKind, ...] = ("day", "snapshot", "increment")
    for kind in kinds:
        ledger.newest(DAY, kind)
    ledger.newest_increment(DAY, "a run")
    ledger.published(DAY, "a token")
    ledger.days()
    ledger.erased()
    ledger.definition_in_force()


def worlds(table: str, names: tuple[str, ...] = ODD_NAMES) -> dict[str, World]:
    """Return every mode over one name of a table."""

    def world(**chosen: Any) -> World:
        fields = {name: chosen.pop(name) for name in tuple(chosen) if name in World.__dataclass_fields__}
        return World(table, names, **{"options": tuple(chosen.items())} | fields)

    merge: dict[str, Any] = {"write_mode": "merge", "key": ("id",)}
    deletes = {**merge, "newest_by": "score", "delete_where": "gone"}
    odd = {**merge, "key": names or ("id",), "newest_by": "at"}
    snapshot: dict[str, Any] = {"kind": "snapshot"}
    parts = {"parts": (table, "s", "day", "connect_head")}
    return {
        "replace": world(),
        "replace, filter": world(filter_column="at", rejects=True),
        "replace, filter on day": world(filter_column="day"),
        "replace, by time of arrival": world(filter_column="_PARTITIONTIME", partition_by="ingestion_time"),
        "replace, by ranges": world(filter_column="id", partition_by="id", partition_type="range"),
        "replace, key alone": World(table, fields=_FIELDS[:1]),
        "replace, increment": world(kind="increment", rejects=True),
        "replace, increment, filter": world(kind="increment", filter_column="at"),
        "append": world(write_mode="append", rejects=True),
        "append again": world(write_mode="append", on_published_day="append"),
        "merge": world(**merge, rejects=True),
        "merge, filter": world(**deletes, filter_column="at"),
        "merge by odd names": world(**odd, delete_where="gone"),
        "merge, increment": world(**deletes, kind="increment"),
        "snapshot": world(**snapshot),
        "snapshot, softly": world(**snapshot, deletes="soft", filter_column="at"),
        "snapshot, daily": world(**snapshot, snapshot="daily"),
        "snapshot, merge": world(**snapshot, **merge, marked=True),
        "snapshot, merge, filter": world(**snapshot, **deletes, filter_column="day"),
        "snapshot, merge, softly": world(**snapshot, **odd, deletes="soft"),
        "template": world(**parts, rejects=True),
        "template, filter": world(**parts, filter_column="at"),
    }
