"""Plans of publishes and confirmations, made from manifest, staged rows and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_provider_connect.publishing import ledger_row
from airflow_provider_connect.sink import LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks._bigquery.ledger import WriteMode
from airflow_provider_connect.sinks._bigquery.rejects import RejectTables

if TYPE_CHECKING:
    from airflow_provider_connect.clients.bigquery.sql import TableRef
    from airflow_provider_connect.sinks._bigquery.staging import StagingLayout
    from airflow_provider_connect.sinks._bigquery.tables import MergeRule, TargetTables


@dataclass(frozen=True, kw_only=True)
class LedgerStep:
    """Change of one day in the ledger, refused if the ledger has changed since the poll.

    :param staging: the attempt's staging table. For a confirmation, the prefix of all.
    """

    target: TableRef
    staging: TableRef
    ledger: TableRef
    publish: Publish
    replaces_whole: bool = False

    @property
    def span_number(self) -> int | None:
        return self.publish.manifest.span_number if self.publish.kind == "increment" else None

    @property
    def follows_stream(self) -> bool:
        """True if the step follows the stream's newest publish, as snapshots and increments do."""
        return self.replaces_whole or self.publish.kind == "increment"

    @property
    def key(self) -> StreamKey:
        return self.publish.key

    @property
    def action(self) -> str:
        return f"confirm {self.key} {self.publish.day} in {self.ledger.id}"


@dataclass(frozen=True, kw_only=True)
class PublishPlan(LedgerStep):
    """Changes of one publish, and the conditions that must hold for it.

    :param row: the new ledger row, without its generation.
    :param layout: the staging tables. With ``table_changes``, the target is a template's head.
    """

    row: LedgerRow
    layout: StagingLayout
    write_mode: WriteMode = "replace"
    on_published_day: Literal["refuse", "append"] = "refuse"
    merge: MergeRule | None = None
    streams: tuple[str, ...] = ()
    stream_count: int = 0
    rejects: RejectTables | None = None
    deletes_softly: bool = False

    @property
    def expressions(self) -> dict[str, str]:
        """SQL of each target column's value, from a staged row."""
        return {column.name: column.expression for column in self.layout.columns}

    @property
    def marks_spans(self) -> bool:
        """True if each row gets the number of its span."""
        return self.span_number is not None and self.write_mode == "replace"

    @property
    def changed_tables(self) -> list[TableRef]:
        """The target and, for a template, the day's tables. All have the plan's columns."""
        return [self.target, *(self.target.sibling(part.name) for part in self.layout.table_changes or ())]

    @property
    def action(self) -> str:
        return f"publish {self.key} {self.publish.day} into {self.target.id}"


def make_publish_plan(
    tables: TargetTables, publish: Publish, layout: StagingLayout, streams: Sequence[str], rejects: RejectTables | None
) -> PublishPlan:
    polled = publish.manifest.polled
    from_source = polled.counts.get("rejected", 0)
    from_sink = rejects.rows - from_source if rejects and rejects.staging else 0
    counts = polled.all_counts | {"rejected": from_source + from_sink}
    if layout.discarded_sources:
        counts["discarded_columns"] = len(layout.discarded_sources)
    rows = sum(file.rows for file in polled.files) - from_sink
    return PublishPlan(
        target=tables.target,
        staging=layout.table,
        ledger=tables.ledger,
        publish=publish,
        row=ledger_row(publish, 0, rows=rows, counts=counts, published_at=None),
        layout=layout,
        write_mode=tables.options.write_mode,
        on_published_day=tables.options.on_published_day,
        merge=tables.merge_rule(layout.columns),
        streams=tuple(streams),
        stream_count=layout.filled.streams if layout.filled else len(streams),
        rejects=rejects,
        replaces_whole=tables.options.replaces_whole(publish.kind),
        deletes_softly=tables.options.deletes_softly(publish.kind),
    )
