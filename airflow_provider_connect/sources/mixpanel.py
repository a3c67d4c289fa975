r"""Mixpanel: raw events by day, and data of the Query and App APIs.

**Streams** (option ``stream``): ``export`` (raw events), ``engage``, ``cohorts``, ``cohort_members``, ``annotations``,
``funnels``, ``retention``, ``insights`` and ``segmentation`` (``docs/mixpanel.md``). The sections below describe
``export``, except **Connection**.

**Export.** Reads ``GET /api/2.0/export`` (https://developer.mixpanel.com/reference/raw-event-export, 2026-11) and drops
the duplicates (``deduplicate``) that Mixpanel leaves in it:
https://developer.mixpanel.com/reference/event-deduplication.

**Connection** (type ``mixpanel``)

============ =====================================================================================
login        user name of a service account. Empty for a project secret
password     secret of the service account, or the project secret (which Mixpanel retires on 2027-03-03)
host         another host for all APIs, as ``https://name`` or ``name``. Empty for the region's. http for
             loopback only
port         port of that host
extra        ``region``: us (default), eu, in · ``project_id``: required with a service account ·
             ``timestamps``: see below · ``proxy``: URL of the proxy, or ``environment``. Default: no proxy
             · ``ca_bundle``: further trusted authorities, for proxies that inspect TLS: PEM text, or the
             absolute path of a PEM file on the worker and every Spark node · ``limits``: limits that
             replace Mixpanel's own, such as ``{"export": {"requests": 400}}``: ``export`` and ``query``,
             each with ``requests`` in ``seconds``, ``per_second`` and ``at_once``
============ =====================================================================================

**Days and times.** Projects created since 1 January 2023 read dates as UTC and export true epochs
(``timestamps="utc"``). Older projects read dates in the project's zone and export its clock times
(``"project_local"``): https://docs.mixpanel.com/docs/export-methods. Set the regime here or in the connection, unless
the project's zone is UTC.

**Rows** of ``export``

.. code-block:: sql

    event            STRING NOT NULL,
    distinct_id      STRING,              -- a number keeps its JSON text
    insert_id        STRING,
    time             TIMESTAMP,           -- UTC
    time_local       TIMESTAMP_NTZ,       -- null in the regime utc
    properties       STRING NOT NULL,     -- JSON, byte for byte
    processing_time  TIMESTAMP,           -- UTC
    record_key       STRING NOT NULL,     -- 32 hex digits
    key_origin       STRING NOT NULL,     -- vendor | fallback
    ...                                   -- one column for each promoted property

A lone surrogate (``\ud800``) becomes U+FFFD in columns, and stays in ``properties``. If an object has a key twice, the
last value is used. A line with NaN, Infinity or invalid UTF-8 is rejected.

**Key.** ``record_key`` is XXH3-128 over event, distinct_id, time (whole seconds) and $insert_id in UTF-8, joined by
0xFF. If a field is missing, $insert_id is empty, or time is not a whole number, the key is made from 0xFE, event, 0xFF
and the bytes of the properties, and ``key_origin`` is ``fallback``.

**Counts** in the report, such as duplicates, rejected, other_day and late: ``docs/mixpanel.md``.

**Limits.** A project has 60 queries an hour, 3 a second and 100 at the same time
(https://developer.mixpanel.com/reference/rate-limits), shared by all tasks. A day is one query, unless
``days_per_request`` or ``split_rows`` is set. A task reserves its queries before Spark starts, and waits deferred.
Failed queries count too: after ``retry_budget_requests`` of them for a day, a task starts no further day.

One Spark partition streams each request, so memory does not grow with its size. ``max_record_bytes`` limits a line,
``max_rejects`` the rejected lines of a request, and ``request_deadline_seconds`` the whole request.

**Errors.** Retriable: a truncated answer, no export, an error document, 408, 429 and 5xx. A person must correct 400 to
404. A line that is not a record fails the day, unless ``errors_tolerance`` is ``all``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from airflow_provider_connect.capabilities.source import Counts, CountsLate, HasQuota, Inspects, NamesColumns, Proposes
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.connector import C
from airflow_provider_connect.polling.findings import Finding, InspectsConnection, ProposalRequest
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.sources._mixpanel.access import quota_of
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions
from airflow_provider_connect.sources._mixpanel.query.segmentation import MAX_EVENT_NAMES, queries_to_count
from airflow_provider_connect.sources._mixpanel.request_planning import requests_for
from airflow_provider_connect.sources._mixpanel.splitting import CONCURRENT_PARTS, can_split, count_problems
from airflow_provider_connect.sources._mixpanel.streams import STREAMS, connection_problems, option_problems
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day, SourceKind


class MixpanelSource(
    MixpanelOptions, Source, HasQuota, Counts, CountsLate, NamesColumns, Inspects, InspectsConnection, Proposes
):
    """One stream of a Mixpanel project.

    :raises ConfigError: a wrong or unused option, or a column of two properties.
    """

    name: ClassVar[str] = "mixpanel"
    connection_types: ClassVar[tuple[str, ...]] = ("mixpanel",)
    connection_fields: ClassVar[tuple[str, ...]] = ("project_id", "region", "timestamps")
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "zone": "reading",
        "timestamps": "reading",
        "deduplicate": "narrowing",
        "event": "narrowing",
        "where": "condition",
        "data_group_id": "narrowing",
        "filter_by_cohort": "narrowing",
        "cohorts": "narrowing",
        "on_unreadable": "narrowing",
        "funnels": "narrowing",
        "born_event": "narrowing",
        "born_where": "condition",
        "retention_type": "narrowing",
        "interval_days": "narrowing",
        "interval_count": "narrowing",
        "bookmark_id": "narrowing",
        "on": "condition",
    }
    proposal_fields: ClassVar[frozenset[str]] = frozenset({"stream", "day", "records", "columns"})

    @model_validator(mode="after")
    def _fits_its_stream(self) -> Self:
        if problems := option_problems(self):
            raise ValueError("; ".join(problems))
        return self

    @property
    def kind(self) -> SourceKind:
        """``day``, or ``snapshot`` for a stream of the present state."""
        return STREAMS[self.stream].kind

    @property
    def stream_key(self) -> str:
        """Name in the ledger: connection, stream and any variant, joined by dots."""
        variant = STREAMS[self.stream].variant(self)
        return ".".join(part for part in (self.conn_id, self.stream, variant) if part)

    @property
    def timezone(self) -> str:
        """Option ``zone``."""
        return self.zone

    def capability(self, kind: type[C]) -> C | None:
        """Return a capability, or None."""
        return None if kind in (Counts, CountsLate) and self.stream != "export" else super().capability(kind)

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return project, region and time regime, which decide the rows."""
        parts = super().connection_parts(connection)
        return parts | {"timestamps": self.configured_regime(connection)}

    def check(self, connection: Connection) -> list[str]:
        """Return the problems of options and connection."""
        return connection_problems(self, connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Check credentials, region, role, plan, clock, zone and quota. Sends one counted request."""
        from airflow_provider_connect.sources._mixpanel.preflight.check import check_connection  # noqa: PLC0415  # its workshop

        report = check_connection(connection, self, store=store)
        return [*report.findings, Finding("requests sent", "ok", report.requests_text)]

    @classmethod
    def access(cls, connection: Connection) -> Any:
        """Return host and credentials of the export API."""
        from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess  # noqa: PLC0415  # its workshop

        return MixpanelAccess.from_connection(connection)

    @classmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Check the export API with one counted request. Returns success and the report."""
        from airflow_provider_connect.sources._mixpanel.preflight.check import check_connection  # noqa: PLC0415  # its workshop

        report = check_connection(connection, store=store)
        return report.passed, str(report)

    @classmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Propose the option ``promote`` as text, from sampled events or profiles. Costs one query."""
        from airflow_provider_connect.sources._mixpanel.proposals import propose_from_sample  # noqa: PLC0415  # its workshop

        assert connection is not None, "no field of the request stands for it"
        return str(propose_from_sample(connection, request, store=store))

    def quota(self, connection: Connection) -> Quota | None:
        """Return the project's limits for the stream's API, or None."""
        return quota_of(connection, STREAMS[self.stream].api)

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return the least number of requests."""
        return requests_for(self, days) * STREAMS[self.stream].min_requests(self)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return the most concurrent requests, including parts of a split day."""
        return super().requests_at_once(days) * (1 if self.split_rows is None else CONCURRENT_PARTS)

    @property
    def parts_at_once(self) -> int:
        """Most concurrent exports of a split day."""
        return CONCURRENT_PARTS if can_split(self) else 1

    def count_problems(self) -> list[str]:
        """Return the reasons against comparing Mixpanel's count with the rows."""
        return count_problems(self)

    @property
    def counts_first(self) -> bool:
        """True if days are counted before the poll, to split large ones."""
        return self.split_rows is not None

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return the most queries that count the days."""
        if self.event is not None:
            return len(days) * queries_to_count(len(dict.fromkeys(self.event)), self.where_expression)
        return len(days) * (1 + queries_to_count(MAX_EVENT_NAMES, None))

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the project's limits for the Query API, which counts events."""
        return quota_of(connection, "query")

    def column_names(self) -> list[str]:
        """Return the names of all columns, promoted ones included."""
        from airflow_provider_connect.sources._mixpanel.columns import COLUMNS  # noqa: PLC0415  # its workshop

        stream = STREAMS[self.stream]
        base_columns = COLUMNS if stream.read_batches is None else stream.columns
        return [*base_columns, *(promoted.column for promoted in self.promoted)]

    def dataset(self, connection: Connection) -> Dataset:
        """Return the lineage dataset: the server's URL, and ``<project>/<stream>``."""
        from airflow_provider_connect.sources._mixpanel.access import server_url  # noqa: PLC0415  # its workshop

        stream, project = STREAMS[self.stream], connection.option("project_id") or connection.conn_id
        parts = [self.stream, stream.variant(self)]
        return Dataset(server_url(connection, stream.api), f"{project}/{'.'.join(filter(None, parts))}")

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the stream's poller."""
        stream = STREAMS[self.stream]
        if stream.read_batches is None:
            from airflow_provider_connect.sources._mixpanel.poller import ExportPoller  # noqa: PLC0415  # too heavy for a DAG file

            return ExportPoller(self, connection)
        from airflow_provider_connect.sources._mixpanel.poller import QueryPoller  # noqa: PLC0415  # too heavy for a DAG file

        return QueryPoller(stream, self, connection)
