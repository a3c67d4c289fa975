"""What one publish is to change: made of its manifest, of what was staged and of the options, run by :mod:`.turns`.

A confirmation changes the ledger alone, so :class:`LedgerStep` is all there is to it.
"""

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
    """One step of a day in the ledger, which must follow what was seen before the poll.

    :param staging: the attempt's staging table; without one, what the names of the target's staging tables begin with.
    :param publish: the day, who wants it, and what was seen before the poll.
    :param replaces_whole: whether this is a snapshot that takes the place of everything in the table.
    """

    target: TableRef
    staging: TableRef
    ledger: TableRef
    publish: Publish
    replaces_whole: bool = False

    @property
    def follows_stream(self) -> bool:
        """Whether it follows a publish of whatever day: a snapshot, or an increment."""
        return self.replaces_whole or self.publish.kind == "increment"

    @property
    def key(self) -> StreamKey:
        """The stream."""
        return self.publish.key

    @property
    def action(self) -> str:
        """What is done, for messages."""
        return f"confirm {self.key} {self.publish.day} in {self.ledger.id}"


@dataclass(frozen=True, kw_only=True)
class PublishPlan(LedgerStep):
    """What one publish changes, and what must hold for it.

    :param row: the ledger row to be; ``rows`` are the rows staged, and ``generation`` is decided by the script.
    :param made: how the rows were staged; of several ``parts`` the target is the head, and has no rows.
    :param merge: only for, and always with, ``write_mode="merge"``.
    :param streams: names of the write streams that filled the staging table, where they are known; the ledger keeps the
        first few.
    :param stream_count: how many there were.
    :param softly: whether rows that a snapshot no longer has stay, as deleted.
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
        """SQL for each column's value, over a staged row."""
        return {column.name: column.expression for column in self.layout.columns}

    @property
    def changed_tables(self) -> list[TableRef]:
        """Every table that must have the columns."""
        return [self.target, *(self.target.sibling(part.name) for part in self.layout.table_changes or ())]

    @property
    def action(self) -> str:
        """What is done, for messages."""
        return f"publish {self.key} {self.publish.day} into {self.target.id}"


def make_publish_plan(
    tables: TargetTables, publish: Publish, layout: StagingLayout, streams: Sequence[str], rejects: RejectTables | None
) -> PublishPlan:
    """Return the plan of a day whose rows and rejects are staged.

    :param streams: names of the write streams that this attempt filled.
    """
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
