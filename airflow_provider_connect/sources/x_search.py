"""X (Twitter): posts of a day that match queries, from recent search or the full archive.

Option ``stream`` selects the rows: matching ``posts``, or the ``users``, ``media`` or ``referenced`` posts that they
refer to (``docs/x-search.md``).

Reads ``GET /2/tweets/search/recent`` and ``/2/tweets/search/all`` (https://docs.x.com/x-api/posts/search/introduction,
2026-11) with the selected fields and expansions, until an answer has no next page. An empty page is not the end.

**Connection** (type ``x``)

============ =====================================================================================
password     the app's bearer token (OAuth 2.0 App-Only). The archive accepts no other
host         another host, as ``https://name`` or ``name``. Empty for api.x.com. http for loopback only
port         port of that host
extra        ``app``: a name for the app, equal in all connections with its token, so that they share its
             limits · ``limits``: limits that replace X's own, such as ``{"all": {"requests": 100}}``:
             ``recent``, ``all`` and ``counts``, each with ``requests`` in ``seconds``, ``per_second`` and
             ``at_once`` · ``proxy``: URL of the proxy, or ``environment``. Default: no proxy ·
             ``ca_bundle``: further trusted authorities: PEM text, or the absolute path of a PEM file on
             the worker and every Spark node
============ =====================================================================================

**Days** are UTC days from 21 March 2006 on, requested at least ten seconds after their end. A post may be edited for 30
minutes, with a new id and a new time, so set the operator's ``ready_after``. ``endpoint="auto"`` reads days of the last
week from recent search, and older days from the archive.

**Rows** of ``posts``

.. code-block:: sql

    id                   STRING NOT NULL,
    created_at           TIMESTAMP NOT NULL,   -- UTC
    text                 STRING,               -- complete text, also of a long post
    lang                 STRING,
    author_id            STRING,
    author_username      STRING,
    author_name          STRING,
    conversation_id      STRING,
    in_reply_to_user_id  STRING,
    possibly_sensitive   BOOLEAN,
    edit_history         ARRAY<STRING>,        -- ids of all versions
    repost_count         BIGINT,
    reply_count          BIGINT,
    like_count           BIGINT,
    quote_count          BIGINT,
    bookmark_count       BIGINT,
    impression_count     BIGINT,
    author               STRING,               -- JSON, as sent
    referenced           STRING,               -- JSON: [{"type", "id", "post"}]
    users                STRING,               -- JSON: other users in the post
    media                STRING,               -- JSON
    polls                STRING,               -- JSON
    place                STRING,               -- JSON
    errors               STRING,               -- JSON: objects that X could not send
    post                 STRING NOT NULL,      -- JSON, as sent
    queries              ARRAY<STRING> NOT NULL,
    record_key           STRING NOT NULL       -- 32 hex digits

Fields outside ``expansions``, and fields that X leaves out, are null. A reload drops posts that X no longer finds.
Counts such as ``like_count`` are of the moment of the request.

**Key.** ``record_key`` is XXH3-128 over the post's id. The column ``queries`` lists every query that found a post.
Other queries define another stream, with its own days.

**Counts** in the report

- ``duplicates``: posts found by several queries or sent twice, and objects sent with several pages
- ``out_of_order``: duplicates that arrived after the row was made, so ``queries`` may lack a query
- ``outside_asked``: posts of other days, dropped
- ``rejected``: posts without id or time, set aside
- ``partial_errors.<kind>``: objects that X could not send, such as ``resource-not-found``. They are in the column
  ``errors`` of the posts that refer to them. Errors without such a post, and of other streams, are in the rejects

X's count of posts is an upper bound for ``reconcile``, and cuts large days for ``split_rows``.

**Limits.** In 15 minutes an app has 450 requests to recent search, 300 to the archive (at most one a second) and 300 to
the counts (https://docs.x.com/x-api/fundamentals/rate-limits), shared by all tasks with the same connection or ``app``.
A task reserves one request for each query of a day before Spark starts, and waits deferred. When the window is used up,
it waits for the next one, at most 16 minutes each time.

A page of recent search has 100 posts, a page of the archive 500. Memory holds one page of each query. X bills each post
that it sends, once on a UTC day. Queries that are too long for X are refused before a request is sent.

**Errors.** Retriable: a truncated or unreadable answer, 5xx, a rate limit, and a next_token that X no longer accepts. A
person must act on 401, 403, a refused request, and the usage cap. A post without id or time fails the day, unless
``errors_tolerance`` is ``all``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_connect.capabilities.source import Counts, HasQuota, Inspects, NamesColumns
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.polling.findings import Finding, InspectsConnection
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import PollContext, Poller, Source
from airflow_provider_connect.sources._x_search.access import access_problems, quota_of, read_access, server_url
from airflow_provider_connect.sources._x_search.options import XSearchOptions
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day


class XSearchSource(XSearchOptions, Source, HasQuota, Counts, NamesColumns, Inspects, InspectsConnection):
    """Posts on X that match queries.

    :raises ConfigError: a wrong option, or too long a query.
    """

    name: ClassVar[str] = "x_search"
    connection_types: ClassVar[tuple[str, ...]] = ("x",)
    row_options: ClassVar[Mapping[str, RowRole]] = {"queries": "condition"}

    @property
    def stream_key(self) -> str:
        """Name in the ledger: connection, stream and a hash of the queries, joined by dots."""
        return f"{self.conn_id}.{self.stream}.{self.variant}"

    def check(self, connection: Connection) -> list[str]:
        """Return the problems of the connection."""
        return access_problems(connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Return a finding on this month's posts. Sends one request, which reads no post."""
        from airflow_provider_connect.sources._x_search.client import describe_usage  # noqa: PLC0415  # its workshop

        return [Finding("usage", "ok", describe_usage(connection))]

    @classmethod
    def access(cls, connection: Connection) -> Any:
        """Return the API's address and the token."""
        return read_access(connection)

    @classmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Return True and the app's usage. Sends one request, which reads no post."""
        from airflow_provider_connect.sources._x_search.client import describe_usage  # noqa: PLC0415  # its workshop

        return True, describe_usage(connection)

    def quota(self, connection: Connection) -> Quota | None:
        """Return the app's limit on the endpoint, for ``auto`` the archive's."""
        return quota_of(connection, self.endpoints[-1])

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return the least number of requests: one per day and query."""
        return len(days) * len(self.queries)

    def count_problems(self) -> list[str]:
        """Return the reasons against comparing X's counts with the rows."""
        if self.stream != "posts":
            return [f"stream {self.stream!r} of source {self.name!r} knows no count of the vendor's own"]
        return self.joined_query_problems()

    @property
    def counts_first(self) -> bool:
        """True if days are counted before the poll, to split large ones."""
        return self.split_rows is not None

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the app's limit on counts."""
        return quota_of(connection, "counts")

    def column_names(self) -> list[str]:
        """Return the names of a post's columns."""
        from airflow_provider_connect.sources._x_search.columns import schema  # noqa: PLC0415  # its workshop

        return list(schema().names)

    def dataset(self, connection: Connection) -> Dataset:
        """Return the lineage dataset: the API's URL and path, for ``auto`` the archive's."""
        return Dataset(server_url(connection), f"/2/tweets/search/{self.endpoints[-1]}")

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the poller."""
        from airflow_provider_connect.sources._x_search.poller import XSearchPoller  # noqa: PLC0415  # too heavy for a DAG file

        return XSearchPoller(self, connection, context)
