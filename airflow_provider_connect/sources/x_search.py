"""X (Twitter): the posts of a day that queries find, from recent search or the full archive.

Option ``stream`` says what a row is: one of these posts (``posts``), or what they refer to: ``users``, ``media``,
``referenced`` posts, each once a day. Rows and key of these are in ``docs/x-search.md``.

Reads ``GET /2/tweets/search/recent`` and ``/2/tweets/search/all``
(https://docs.x.com/x-api/posts/search/introduction, 2026-11) with the fields and expansions of your choice, page after
page until an answer names no next one: an empty page is no end.

**Connection** (type ``x``)

============ =====================================================================================
password     the app's bearer token (OAuth 2.0 App-Only); the archive takes no other
host         another host, as ``https://name`` or ``name``; empty for api.x.com. http for loopback only
port         of that host
extra        ``app``: a name for the app, the same in all connections that have its token, so that they share
             its limits · ``limits``: other limits than X's own, such as ``{"all": {"requests": 100}}``:
             ``recent``, ``all`` and ``counts``, each with ``requests`` in ``seconds``, ``per_second`` and
             ``at_once`` · ``proxy``: URL of the proxy, or ``environment``; without it none is used ·
             ``ca_bundle``: authorities to trust beside the public ones: PEM text, or the absolute path of a PEM
             file on the worker and every Spark node
============ =====================================================================================

**Days** are UTC's, from 21 March 2006 on. A day is asked for from its first second up to before the next day's, and at
the earliest ten seconds after its end. A post may be edited for 30 minutes, and then has a new id and a new time: for
days that do not change any more set the operator's ``ready_after`` to ``timedelta(minutes=30)`` or more. With
``endpoint="auto"`` days of the last week are read from recent search, and older ones from the archive. X has been seen
to send posts of other days: they are dropped (``outside_asked``).

**Rows** of ``posts``

.. code-block:: sql

    id                   STRING NOT NULL,
    created_at           TIMESTAMP NOT NULL,   -- UTC
    text                 STRING,               -- of a long post the whole text
    lang                 STRING,
    author_id            STRING,
    author_username      STRING,
    author_name          STRING,
    conversation_id      STRING,
    in_reply_to_user_id  STRING,
    possibly_sensitive   BOOLEAN,
    edit_history         ARRAY<STRING>,        -- all versions' ids
    repost_count         BIGINT,
    reply_count          BIGINT,
    like_count           BIGINT,
    quote_count          BIGINT,
    bookmark_count       BIGINT,
    impression_count     BIGINT,
    author               STRING,               -- JSON, as sent
    referenced           STRING,               -- JSON: [{"type", "id", "post"}]
    users                STRING,               -- JSON: others whom the post names
    media                STRING,               -- JSON
    polls                STRING,               -- JSON
    place                STRING,               -- JSON
    errors               STRING,               -- JSON: what X could not send along
    post                 STRING NOT NULL,      -- JSON, as sent
    queries              ARRAY<STRING> NOT NULL,
    record_key           STRING NOT NULL       -- 32 hex digits

What ``expansions`` does not ask for is null, and so is what X leaves out. A post that X can no longer find when its day
is loaded again is no longer among its rows. Counts such as ``like_count`` are those of the moment it was read.

**Key.** ``record_key`` is XXH3-128 over the post's id. Each post is one row, however many of ``queries`` have found it:
all queries of a day are read side by side by one task, newest first, and meet by id. ``queries`` lists those that have
found it. A partition for each query could not do that: partitions do not see each other's rows, must be disjoint, and
nothing after them drops doubles; large days are cut by hours instead. With other queries it is another stream, whose
days do not replace those of this one.

A sink that registers schemas calls the row ``connect.x.Post`` and its key ``connect.x.PostKey``; those of the other
streams ``connect.x.User``, ``connect.x.Media`` and ``connect.x.ReferencedPost``, each with its ``…Key``.

**Counts** in the report: duplicates (found by several queries, or sent twice; of the other streams, sent along with
several pages), out_of_order (duplicates that came when
the row was already made, so that ``queries`` may lack one), outside_asked, rejected, partial_errors.<kind> (what X
could not send along, such as ``resource-not-found``: in the column ``errors`` of the posts that refer to it, else, and
in the other streams always, set aside with the rejects).

**Reconcile.** X counts posts, too, but deleted and withheld ones are among them: the count is an upper bound. Compare
with the operator's ``reconcile="warn"``, and a ``reconcile_percent`` for the deletions that you expect. A day with more
posts than ``split_rows`` is cut at full hours by its count.

**Limits.** For an app and 15 minutes: 450 requests to recent search, 300 to the archive, and to this at most one a
second, 300 to the counts (https://docs.x.com/x-api/fundamentals/rate-limits). All tasks that use one connection, or
connections that name one ``app``, share them: a task reserves one request for each query of a day before Spark starts,
and waits deferred while there is no room. ``auto`` reserves those of the archive. A day's other pages are not known
before: when the window is used up half way, the task waits where it is until the next one begins, at most 16 minutes
each time, and goes on. A page of recent search has 100 posts, one of the archive 500. X bills each post that it sends;
posts read twice on one UTC day are billed once. A query may have 512 characters for recent search and 1,024 for the
archive, with Enterprise access 4,096: longer ones are refused before anything is sent. Memory holds one page of each
query.

**Errors.** Retriable: an answer that is cut or is none, 5xx, a rate limit (with the time until its window ends), a
next_token that X takes no more. A later page that fails is asked for again alone first. A person must act: 401, 403, a
request that is not understood, and the usage cap, whichever status it comes with: its message says which day is next,
and nothing is tried again. A post without id or time fails the day, unless it is tolerated.
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
    """The posts that some queries find on X.

    :raises ConfigError: if an option is wrong, or a query is longer than X takes.
    """

    name: ClassVar[str] = "x_search"
    connection_types: ClassVar[tuple[str, ...]] = ("x",)
    row_options: ClassVar[Mapping[str, RowRole]] = {"queries": "condition"}

    @property
    def stream_key(self) -> str:
        """Connection, stream and queries: other queries find other posts."""
        return f"{self.conn_id}.{self.stream}.{self.variant}"

    def check(self, connection: Connection) -> list[str]:
        """Return what is wrong with the connection; [] if nothing is."""
        return access_problems(connection)

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Return the finding on the month's posts. Requests the app's usage, which reads no post."""
        from airflow_provider_connect.sources._x_search.client import describe_usage  # noqa: PLC0415  # its workshop

        return [Finding("usage", "ok", describe_usage(connection))]

    @classmethod
    def access(cls, connection: Connection) -> Any:
        """Return which address to ask, and with which token."""
        return read_access(connection)

    @classmethod
    def inspect_connection(cls, connection: Connection, store: KeyStore | None) -> tuple[bool, str]:
        """Request the app's usage, which reads no post."""
        from airflow_provider_connect.sources._x_search.client import describe_usage  # noqa: PLC0415  # its workshop

        return True, describe_usage(connection)

    def quota(self, connection: Connection) -> Quota | None:
        """Return the app's limit on the endpoint; of both, the archive's, which is the smaller one."""
        return quota_of(connection, self.endpoints[-1])

    def requests_for(self, days: Sequence[Day]) -> int:
        """Return how many requests days cost at least: one for each query."""
        return len(days) * len(self.queries)

    def count_problems(self) -> list[str]:
        """Say why X's counts cannot be compared with the rows; [] if they can."""
        if self.stream != "posts":
            return [f"stream {self.stream!r} of source {self.name!r} knows no count of the vendor's own"]
        return self.joined_query_problems()

    @property
    def counts_first(self) -> bool:
        """Whether days may be split, which needs their counts."""
        return self.split_rows is not None

    def count_quota(self, connection: Connection) -> Quota | None:
        """Return the app's limit on counts."""
        return quota_of(connection, "counts")

    def column_names(self) -> list[str]:
        """Return the names of a post's columns."""
        from airflow_provider_connect.sources._x_search.columns import schema  # noqa: PLC0415  # its workshop

        return list(schema().names)

    def dataset(self, connection: Connection) -> Dataset:
        """Return the API's host and path; where either endpoint is read from, the archive's, which has all posts."""
        return Dataset(server_url(connection), f"/2/tweets/search/{self.endpoints[-1]}")

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the poller of posts."""
        from airflow_provider_connect.sources._x_search.poller import XSearchPoller  # noqa: PLC0415  # too heavy for a DAG file

        return XSearchPoller(self, connection, context)
