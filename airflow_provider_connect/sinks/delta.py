"""Delta Lake table on a local path or an object store, one partition ``day`` (DATE) for each day; needs no server.

The stage lies under the table's root and staged files *are* the table's files: publishing a day is one commit to the
Delta log, which moves no byte. Readers (Spark, DuckDB, polars, Trino, BigQuery) see the old day or the new one, never a
part of it.

**Ledger.** The commit carries the ledger as Delta application transactions, which survive checkpoints and the
clean-up of the log. ``connect/<connector>/<stream>/<day>`` holds the generation; ``…/rows`` and ``…/clear`` its rows
and clear number; ``…/run/<run>`` and ``…/token/<token>`` the generation they published. ``connect/<connector>/<stream>/
attempt/<attempt>`` holds an attempt's generation, or 0 once it is swept; ``…/late`` and ``…/late_3_days`` of a day how
late its rows came. The commit's metadata (``DESCRIBE HISTORY``) has details for people, under ``connect.…``.

**Unchanged days.** A day of a lookback whose answer is the published one is confirmed: a commit without files writes
``…/checks``, which publishes compare like the generation. ``…/answer`` and what lies below it say what was published.

**Connection.** None: rights on the path come from the environment (AWS_*, GOOGLE_*, AZURE_*, a role of the machine);
the Airflow task, the driver and the executors all need them. A path with credentials in it is refused. S3 and GCS need
no lock: commits are conditional writes, and an environment that switches those off is refused.

**Delivery.** Each day once, and whole. A publish reads, decides and commits from one snapshot of the table, and only
while the day has the generation that its attempt saw before it polled. Delta refuses a commit if another one has
written the same application transaction since that snapshot; the later one then reads again and decides again. A
reload replaces the day; older versions stay readable until they are vacuumed. On a local disk a published day survives
a power cut.

**Snapshots.** A source's snapshot of all rows removes the earlier one's files in the commit that adds its own; one of
an earlier day than the table shows is superseded. ``snapshot="daily"`` keeps the snapshot of each day beside the
others. A table that holds such a history is not replaced.

``deletes="soft"`` keeps the rows that the source no longer has, with
``__deleted`` true and ``__deleted_at``. ``…/deleted`` of a day is how many they are; no other count has them.

**Increments.** ``…/span/<number>/<ends>`` of a day holds what an increment has read, and ``connect/<connector>/
<stream>/increment`` the number of the newest: two runs that follow the same one cannot both commit. A table of each
value of a column (below) takes none.

**A table for each event.** ``path="/data/lake/{event}"`` makes a table of each value of a column. Each table switches
whole, one after the other, under one ledger in ``/data/lake/_connect_head``: a day is done once every table has it. A
retry finishes what is left, and a newer run replaces it in every table.

**Sweep.** Unpublished files are deleted once their attempt has been silent for ``sweep_after`` by the storage's clock,
and the log records it as swept. So neither a wrong clock nor a stalled publisher makes a sweep delete committed files.

**Lost log.** If the log is gone or older than the data, every task fails and nothing is swept.

**Schema.** New columns are added, at the end and nullable, by the commit itself (``schema_contract="freeze"``
refuses them); columns the source no longer has stay and read as null. A changed type fails the day.

**Ownership.** A table belongs to one stream, which its property ``connect.stream`` names; other streams are refused. A
table made by hand needs the property in its CREATE TABLE (``'connect.stream' = 'mixpanel/<conn_id>.export'``):
setting it later with delta-rs would raise the table's protocol. Column mapping, constraints and deletion vectors are
refused.

**Limits.** RESTORE, DELETE or UPDATE by hand change files, not the ledger: preflight warns and names the days. A table
takes one commit at a time, so very many days at once wait for each other. A path holds no backslash, no control
character and no ``%`` before two hex digits.

**Errors.** Retriable, with the old day unchanged: a full disk, a store that does not answer, races lost for a minute. A
person must correct missing rights, another stream's table and a refused feature. A changed column type is bad data.

Vendor facts: https://github.com/delta-io/delta/blob/master/PROTOCOL.md, measured with deltalake 1.6.6 (2026-11).
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from airflow_provider_connect.capabilities.publisher import StagesMarks
from airflow_provider_connect.sink import Connections, Publisher, Sink, StreamKey
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.window import SourceKind


class DeltaSink(DeltaOptions, Sink, StagesMarks):
    """Options of a Delta table as a sink."""

    name: ClassVar[str] = "delta"

    @property
    def target(self) -> str:
        """The table's path or URL, in one spelling."""
        return self.path

    @property
    def asset_uri(self) -> str:
        """The target as a URI; a local path becomes ``file:///…``."""
        if "://" in self.path:
            return self.path.replace("{", "%7B").replace("}", "%7D")
        return f"file://{quote(self.path)}"

    def stages_marks(self, kind: SourceKind) -> bool:
        """Tell whether rows say that they are not deleted: staged files are the table's own."""
        return self.deletes_softly(kind)

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Tell whether deleted rows are kept by their key."""
        return self.deletes_softly(kind)

    @property
    def keeps_spans(self) -> bool:
        """Whether it is one table: each of several is published by itself."""
        return self.tables is None

    def stage_root(self, connections: Connections) -> str:
        """Return the table's root, or that of all tables: staged files are the tables' files."""
        return self.root

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return the publisher of the table, or of all tables of a template; neither needs a connection."""
        if self.tables is not None:
            from airflow_provider_connect.sinks._delta.tables.publisher import TablesPublisher  # noqa: PLC0415

            return TablesPublisher(self, key)
        from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher  # noqa: PLC0415  # too heavy for a DAG file

        return DeltaPublisher(self, key)
