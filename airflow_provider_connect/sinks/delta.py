"""Delta Lake table on a local path or an object store, with one partition ``day`` (DATE) for each day.

Staged files under the table's root *are* the table's files, and one commit to the Delta log publishes a day. Readers
see the old day or the new one, never a part of it. Guide: ``docs/delta.md``.

**Ledger.** Delta application transactions in each commit. The commit's metadata (``DESCRIBE HISTORY``) has details for
people, under ``connect.…``. Application ids begin with ``connect/<connector>/<stream>/`` and continue with

- ``<day>``: the generation. ``<day>/rows``: its rows. ``<day>/clear``: how often its run was cleared.
- ``<day>/run/<run>`` and ``<day>/token/<token>``: the generation that this run or intent published.
- ``attempt/<attempt>``: the generation that the attempt published, or 0 once a sweep may delete its files.
- ``<day>/late`` and ``<day>/late_3_days``: counts of late rows. ``<day>/deleted``: number of soft-deleted rows.
- ``<day>/checks``: number of confirmations of an unchanged day. ``<day>/answer`` and ids below it: the answer's digest.
- ``<day>/erased``: rows left out as erased. ``snapshot``: day of the newest snapshot of the table, as ``20261005``.
- ``<day>/span/<number>/<ends>``: the span that an increment read. ``increment``: number of the newest span.
- ``<day>/increment/<number>``: the same ids of the day's later spans. ``<day>/file/<attempt>``: the generation of the
  day, or of that span, that an attempt published.
- ``merge/<rule>``: 1 for the rule that the table is merged by. ``tombstones``: number of the file of deleted keys.
  ``attempt/<attempt>/merged``: number of the files that a merge wrote.

**Connection.** None. Rights come from the environment (AWS_*, GOOGLE_*, AZURE_*, a role of the machine) of the Airflow
task, the driver and the executors. A path with credentials, and an environment that disables conditional writes, are
refused.

**Delivery.** Each day once, and complete. A publish commits only if the day still has the generation from before the
attempt's poll. A reload replaces the day, and older versions stay readable until they are vacuumed. A snapshot replaces
the whole table, or with ``snapshot="daily"`` its day.

**Merge.** ``write_mode="merge"`` keeps one row for each ``key``, the newest, in the day that wrote it. ``delete_where``
deletes keys, which the table remembers. Merges of a table follow each other, and write the files that hold a merged key
again. A merged snapshot deletes and counts the rows whose key vanished.

**Sweep.** Deletes unpublished files of attempts that have been silent for ``sweep_after`` by the storage's clock. If
the log is missing or older than the data, every task fails and no file is swept.

**Schema.** The commit adds new columns, nullable and at the end (``schema_contract="freeze"`` refuses them). Columns
that vanish from the source stay and read as null. Before a publish, a commit of its own widens a column that grows, and
writes the table's files again. Any other changed type fails the day.

**Ownership.** A table belongs to one stream, named in its property ``connect.stream``. A table made by hand needs it in
its CREATE TABLE (``'connect.stream' = 'mixpanel/<conn_id>.export'``). Column mapping, constraints and deletion vectors
are refused.

**Limits.** RESTORE, DELETE or UPDATE by hand change files but not the ledger: preflight warns. A table takes one commit
at a time. A template's tables (``path="/data/lake/{event}"``) switch one after the other, and take no increments.

**Errors.** Retriable, with the old day unchanged: a full disk, a store that does not answer, other commits always first
for ten minutes. Not retried: missing rights, another stream's table, a refused feature, a changed column type.

Vendor facts: https://github.com/delta-io/delta/blob/master/PROTOCOL.md, measured with deltalake 1.6.6 (2026-11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from airflow_provider_connect.capabilities.publisher import StagesMarks
from airflow_provider_connect.sink import Connections, Publisher, Sink, StreamKey
from airflow_provider_connect.sinks._delta.options import DeltaOptions
from airflow_provider_connect.window import SourceKind

if TYPE_CHECKING:
    import pyarrow as pa


class DeltaSink(DeltaOptions, Sink, StagesMarks):
    """Options of a Delta table as a sink."""

    name: ClassVar[str] = "delta"
    stream_option: ClassVar[str] = "path"

    @property
    def target(self) -> str:
        """Canonical path or URL of the table."""
        return self.path

    @property
    def asset_uri(self) -> str:
        """Target as a URI. A local path becomes ``file:///…``."""
        if "://" in self.path:
            return self.path.replace("{", "%7B").replace("}", "%7D")
        return f"file://{quote(self.path)}"

    def shapes_for(self, schema: pa.Schema) -> list[dict[str, Any]]:
        """Return shapes for names and types that Delta does not have, if ``names`` and ``types`` are ``"safe"``."""
        from airflow_provider_connect.sinks._delta.safe_columns import safe_shapes  # noqa: PLC0415  # not for DAG files

        return safe_shapes(schema, names=self.names == "safe", types=self.types == "safe")

    def stages_marks(self, kind: SourceKind) -> bool:
        """Return True if staged rows have the two mark columns of soft deletes."""
        return self.deletes_softly(kind)

    def identifies_by_key(self, kind: SourceKind) -> bool:
        """Return True if the sink merges rows, or finds vanished rows, by their key."""
        return self.write_mode == "merge" or self.deletes_softly(kind)

    @property
    def keeps_spans(self) -> bool:
        """True if the ledger can keep increments' spans. False for a template, which commits its tables one by one."""
        return self.tables is None

    def stage_root(self, connections: Connections) -> str:
        """Return the root of the table, or of all tables of a template."""
        return self.root

    def open(self, key: StreamKey, connections: Connections) -> Publisher:
        """Return a publisher for one stream. Needs no connection."""
        if self.tables is not None:
            from airflow_provider_connect.sinks._delta.tables.publisher import TablesPublisher  # noqa: PLC0415

            return TablesPublisher(self, key)
        from airflow_provider_connect.sinks._delta.publisher import DeltaPublisher  # noqa: PLC0415  # heavy

        return DeltaPublisher(self, key)
