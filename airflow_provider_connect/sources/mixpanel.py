r"""Mixpanel: the raw event export, a day or several in one request, and what the Query and App APIs say of a project.

**Streams** (option ``stream``)

================ ======== ====== ================================ =========================================
stream           kind     API    key of a row                     what a row is
================ ======== ====== ================================ =========================================
export           day      export event, distinct_id, time,        a raw event
                                 $insert_id
engage           snapshot query  distinct_id                      a user's profile, or a group's
cohorts          snapshot query  cohort_id                        a cohort of the project
cohort_members   snapshot query  cohort_id, distinct_id           a member of a cohort
annotations      snapshot app    annotation_id                    a note on the project's charts
funnels          day      query  date, funnel_id, step            a step of a saved funnel
retention        day      query  date, interval_number            how many of a day's users came back
insights         snapshot query  bookmark_id, path, time          a value of a saved report
segmentation     day      query  date, event, segment             how often an event happened
================ ======== ====== ================================ =========================================

A ``day`` holds what happened on it; a ``snapshot`` is all there is when it is taken. This page is about ``export``; the
rows, options and limits of the others are in ``docs/mixpanel.md``. An option that a stream has no use for is refused.

**Export.** Reads ``GET /api/2.0/export`` (https://developer.mixpanel.com/reference/raw-event-export, 2026-11): JSON
lines, gzipped, one event a line, without pages. The export does not drop duplicates, so this source does
(``deduplicate``): https://developer.mixpanel.com/reference/event-deduplication.

**Connection** (type ``mixpanel``)

============ =====================================================================================
login        user name of a service account; empty for a project secret
password     secret of the service account, or the project secret (which Mixpanel retires on 2027-03-03)
host         another host, as ``https://name`` or ``name``, for all APIs; empty for the region's. http for
             loopback only
port         of that host
extra        ``region``: us (default), eu, in · ``project_id``: needed with a service account ·
             ``timestamps``: see below · ``proxy``: URL of the proxy, or ``environment``; without it none is used
             · ``ca_bundle``: authorities to trust beside the public ones, for proxies that inspect TLS: PEM
             text, or the absolute path of a PEM file on the worker and every Spark node · ``limits``: other
             limits than Mixpanel's own, such as ``{"export": {"requests": 400}}``; ``export`` and ``query``,
             each with ``requests`` in ``seconds``, ``per_second`` and ``at_once``
============ =====================================================================================

**Days and times.** Projects created since 1 January 2023 read dates as UTC and export true epochs
(``timestamps="utc"``). Older ones read dates in the project's zone and export what the project's clock showed
(``"project_local"``): https://docs.mixpanel.com/docs/export-methods. No answer says which one a project has, so set it
in the connection or here, unless the project's zone is UTC; a check of the connection (``docs/mixpanel.md``) tells it
from the data, mostly. If a project with UTC dates is in another zone, the request covers both UTC dates of a day, and
rows of other days are dropped (``other_day``). Otherwise the server decides what belongs to a day, and rows with a time
outside it are kept (``outside_day``). A time that the clock showed twice is taken as the first one; a time that it
skipped moves forward.

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
    ...                                   -- one column for each promoted property: see docs/mixpanel.md

**Key.** ``record_key`` is XXH3-128 over event, distinct_id, time (whole seconds) and $insert_id in UTF-8, joined by
0xFF, which UTF-8 never holds. If one of them is missing ($insert_id: or empty; time: or not a whole number), the key is
made from 0xFE, event, 0xFF and the bytes of the properties, and ``key_origin`` is ``fallback``.

**Counts** in the report: duplicates, rejected, rejoined, blank_lines, other_day, outside_day, time_unreadable,
processing_time_unreadable, ambiguous_time, nonexistent_time, fallback_keys, lone_surrogates, unknown_fields (records
with other fields beside event and properties, which are not kept), promote_null.<property>,
promote_null_text.<property>, and by processing_time late_1_days to late_10_days and late (see "Late data" in
``docs/mixpanel.md``).

A lone surrogate (``\ud800``) is U+FFFD in columns; the JSON keeps it. Of a key that an object has twice, the last
counts. A line with NaN, Infinity or invalid UTF-8 is a reject.

**Small and large days.** One export may bring several days of a window (``days_per_request``), and is cut into whole
days on the way. A day with many events may be fetched in several exports (``split_rows``), and one is whose export ran
into ``request_deadline_seconds``. Both: ``docs/mixpanel.md``.

**Limits.** 60 queries an hour, 3 a second and 100 at once for a project, and a day is one query by default
(https://developer.mixpanel.com/reference/rate-limits). All tasks that read one project share them: a task reserves its
queries before Spark starts, and waits deferred while there is no room. A failed query counts too: one task sends at
most ``retry_budget_requests`` of them for a day and then begins no further day. So a server in trouble costs a day 20
queries in the operator's four tries, and a window 20 for each of the ``parallel_days`` that it polls at once.
A request is one partition, and is read as one stream; memory does not grow with it. Lines may be ``max_record_bytes``
long, and ``max_rejects`` lines of a request may be set aside. ``request_deadline_seconds`` ends a slow request at any
point: name service, TLS, headers, chunks, trailers.

**Errors.** Retriable: an answer that is cut, is not an export, or ends in an error document (the message says how much
was read), 408, 429 (with the time to wait) and 5xx. A person must correct credentials, role, plan, region and dates in
the future (400, 401, 402, 403, 404). A line that is not a record fails the day, unless it is tolerated.
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
    """One stream of one Mixpanel project.

    :raises ConfigError: if an option is wrong or does not belong to the stream, or two promoted properties would share
        a column.
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
        if found := option_problems(self):
            raise ValueError("; ".join(found))
        return self

    @property
    def kind(self) -> SourceKind:
        """Days of events and reports, or a snapshot of what a project has now: as the stream is."""
        return STREAMS[self.stream].kind

    @property
    def stream_key(self) -> str:
        """Connection and stream: another project's export is another stream, and never replaces this one's days."""
        variant = STREAMS[self.stream].variant(self)
        return ".".join(part for part in (self.conn_id, self.stream, variant) if part)

    @property
    def timezone(self) -> str:
        """The project's zone."""
        return self.zone

    def capability(self, kind: type[C]) -> C | None:
        """Mixpanel counts raw events alone, and only these say when it received them."""
        return None if kind in (Counts, CountsLate) and self.stream != "export" else super().capability(kind)

    def connection_parts(self, connection: Connection) -> dict[str, str | None]:
        """Return project, region and the meaning of the project's times, from options or connection."""
        parts = super().connection_parts(connection)
        return parts | {"timestamps": self.configured_regime(connection)}

    def check(self, connection: Connection) -> list[str]:
        """Return what is wrong with these options and this connection; [] if nothing is."""
        return connection_problems(self, connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Return the findings on credentials, region, role, plan, clock, zone and quota. Sends one request, counted."""
        from airflow_provider_connect.sources._mixpanel.preflight.check import check_connection  # noqa: PLC0415  # its workshop

        report = check_connection(connection, self, store=store)
        return [*report.findings, Finding("requests sent", "ok", report.requests_text)]

    @classmethod
    def access(cls, connection: Connection) -> Any:
        """Return which address to ask, and with which credentials."""
        from airflow_provider_connect.sources._mixpanel.access import MixpanelAccess  # noqa: PLC0415  # its workshop

        return MixpanelAccess.from_connection(connection)

    @classmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Check the connection as far as the export goes. Sends one request, counted."""
        from airflow_provider_connect.sources._mixpanel.preflight.check import check_connection  # noqa: PLC0415  # its workshop

        report = check_connection(connection, store=store)
        return report.passed, str(report)

    @classmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Return the option ``promote`` for a sample of events or profiles. Costs one query of the project's hour."""
        from airflow_provider_connect.sources._mixpanel.proposals import propose_from_sample  # noqa: PLC0415  # its workshop

        assert connection is not None, "no field of the request stands for it"
        return str(propose_from_sample(connection, request, store=store))

    def quota(self, connection: Connection) -> Quota | None:
        """Return the project's limits for the stream's API, which all its streams share; None if none are known."""
        return quota_of(connection, STREAMS[self.stream].api)

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return how many requests days cost at least: for some streams only the answer tells."""
        return requests_for(self, days) * STREAMS[self.stream].min_requests(self)

    def requests_at_once(self, days: Sequence[Day]) -> int:
        """Return how many requests may be under way at once: parts of a day are polled side by side, too."""
        return super().requests_at_once(days) * (1 if self.split_rows is None else CONCURRENT_PARTS)

    @property
    def parts_at_once(self) -> int:
        """How many exports of a day may be under way at once, where it is split."""
        return CONCURRENT_PARTS if can_split(self) else 1

    def count_problems(self) -> list[str]:
        """Say why Mixpanel's own count cannot be compared with the rows; [] if it can."""
        return count_problems(self)

    @property
    def counts_first(self) -> bool:
        """Whether days may be split, which needs their counts."""
        return self.split_rows is not None

    def requests_to_count(self, days: Sequence[Day]) -> int:
        """Return how many queries it takes at most to count days: one more lists the names, unless ``event`` does."""
        if self.event is not None:
            return len(days) * queries_to_count(len(dict.fromkeys(self.event)), self.where_expression)
        return len(days) * (1 + queries_to_count(MAX_EVENT_NAMES, None))

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the project's limits for the Query API, which counts the export's events."""
        return quota_of(connection, "query")

    def column_names(self) -> list[str]:
        """Return the names of the stream's columns, promoted properties among them."""
        from airflow_provider_connect.sources._mixpanel.columns import COLUMNS  # noqa: PLC0415  # its workshop

        stream = STREAMS[self.stream]
        own = COLUMNS if stream.read_batches is None else stream.columns
        return [*own, *(promoted.column for promoted in self.promoted)]

    def dataset(self, connection: Connection) -> Dataset:
        """Return host, project and stream."""
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
