r"""Mixpanel: the raw event export, one day in one request.

Reads ``GET /api/2.0/export`` (https://developer.mixpanel.com/reference/raw-event-export, 2026-11): JSON lines,
gzipped, one event a line, without pages. The export does not drop duplicates, so this source does
(``deduplicate``): https://developer.mixpanel.com/reference/event-deduplication.

**Connection** (type ``mixpanel``)

============ =====================================================================================
login        user name of a service account; empty for a project secret
password     secret of the service account, or the project secret (which Mixpanel retires on 2027-03-03)
host         own host, as ``https://name`` or ``name``; empty for the region's. http for loopback alone
port         of an own host
extra        ``region``: us (default), eu, in · ``project_id``: needed with a service account ·
             ``timestamps``: see below · ``proxy``: URL of the only proxy that is used ·
             ``ca_bundle``: authorities to trust beside the public ones, as PEM text or as the absolute path
             of a PEM file on the worker and every Spark node: for proxies that inspect TLS
============ =====================================================================================

**Days and times.** Projects created since 1 January 2023 read dates as UTC and export true epochs
(``timestamps="utc"``). Older ones read dates in the project's zone and export what the project's clock showed
(``"project_local"``): https://docs.mixpanel.com/docs/export-methods. Which one a project has cannot be told from
its answers, so it must be said, in the connection or here, unless the project's zone is UTC. Where UTC dates serve a
project in another zone, a day is asked for with both UTC dates it touches, and rows of other days are dropped
(``other_day``). In all other cases the server decides what belongs to a day, and rows whose time lies outside it are
kept (``outside_day``). A reading that the clock showed twice is taken for the first; one it skipped moves forward.

**Rows**

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

**Key.** ``record_key`` is XXH3-128 over event, distinct_id, time (whole seconds) and $insert_id in UTF-8, joined by
0xFF, which UTF-8 never holds. If one is missing ($insert_id also if empty; time also if it is no whole number), it is
made from 0xFE, event, 0xFF and the bytes of the properties, and ``key_origin`` says ``fallback``.

**Counts** in the report: duplicates, rejected, rejoined, blank_lines, other_day, outside_day, time_unreadable,
processing_time_unreadable, ambiguous_time, nonexistent_time, fallback_keys, lone_surrogates, unknown_fields (records
with more than event and properties at the top: the rest is not kept), promote_null.<property>.

A lone surrogate (``\ud800``) is U+FFFD in columns; the JSON keeps it. A key that stands twice in an object counts as
it stands last. NaN, Infinity and invalid UTF-8 make a line a reject.

**Limits.** 60 queries an hour, 3 a second and 100 at once for a project, and a day is one query
(https://developer.mixpanel.com/reference/rate-limits). A query that fails counts too: one task sends at most
``retry_budget_requests`` of them for a day and then begins no further day, so a server in trouble costs a day 20 in the
four tries that the operator makes, and a window 20 for each of the ``parallel_days`` that it polls at once.
A day is one partition, read as one stream; what it takes in memory does not grow with it. Lines may be
``max_record_bytes`` long, and ``max_rejects`` lines may be set aside. ``request_deadline_seconds`` ends a request
wherever it is slow: name service, TLS, headers, chunks, trailers.

**Errors.** An answer that is cut, is no export, or ends in an error document fails the day as retriable, with what was
read so far; so do 408, 429 (with the time to wait) and 5xx. Credentials, role, plan, region and dates in the future
(400, 401, 402, 403, 404) are for a person to mend. A line that is no record fails the day, unless it is tolerated.
"""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import Poller, Source
from airflow_provider_connect.sources._mixpanel.options import MixpanelOptions


class MixpanelSource(MixpanelOptions, Source):
    """Raw events of one Mixpanel project.

    :raises ConfigError: if an option is wrong, or two promoted properties would share a column.
    """

    name: ClassVar[str] = "mixpanel"
    connection_types: ClassVar[tuple[str, ...]] = ("mixpanel",)
    connection_fields: ClassVar[tuple[str, ...]] = ("project_id", "region", "timestamps")

    @property
    def stream_key(self) -> str:
        """Connection and stream: another project's export is another stream, and never replaces this one's days."""
        return f"{self.conn_id}.{self.stream}"

    @property
    def timezone(self) -> str:
        """The project's zone."""
        return self.project_timezone

    def check(self, connection: Connection) -> list[str]:
        """Say what is wrong with these options and this connection together."""
        return self.problems(connection)

    def open(self, connection: Connection) -> Poller:
        """Return what polls the export."""
        from airflow_provider_connect.sources._mixpanel.poller import MixpanelPoller  # noqa: PLC0415  # a DAG file does without it

        return MixpanelPoller(self, connection)
