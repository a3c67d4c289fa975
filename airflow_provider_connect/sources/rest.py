r"""Any REST API that answers JSON, declared: what is asked, how pages follow each other, what a record is.

.. code-block:: python

    RestSource(
        conn_id="github",
        stream="issues",
        request=Request(path="/repos/apache/airflow/issues", params={"since": "{day.start}", "state": "all"}),
        paging=LinkHeader(ends="no_token"),
        records=Records(
            key=("id",),
            columns={"id": "bigint", "title": "string", "updated_at": "timestamp"},
            day="updated_at",
            outside="drop",
        ),
    )

The same may stand in a file, YAML or JSON (:meth:`RestSource.from_file`). ``docs/any-api.md`` goes from nothing to a
loaded day, and says of each paging kind and each end rule what its risk is.

**Connection** (type ``http``, Airflow's own; all its fields: ``docs/http_connection.md``)

============ =====================================================================================
host         where the API is: ``name``, or a URL that may have a path; http for loopback only, or
             without credentials
port         of that host
login        user name, or client id
password     password, token, key or client secret
extra        ``auth``: how they are sent: none, basic, bearer, api_key, oauth2_client_credentials,
             oauth2_refresh_token, session · ``headers`` · ``allowed_hosts`` · ``proxy`` · ``ca_bundle``
============ =====================================================================================

Credentials stand in the connection alone; a declaration holds none.

**Request.** Path, params, headers, body and form may have places: ``{day.start}`` and ``{day.end}``, each perhaps with
a format (``{day.end:epoch_ms}``), and ``{parent.id}``. There are no others and nothing is evaluated. What is put into a
path is quoted. A place alone in a JSON body becomes a number if its format is an epoch.

**Days and bounds.** A day is one of ``zone``. ``bounds`` says whether the API includes its start and its end, how fine
it compares, and how it writes times. An inclusive end is asked one granularity earlier, so nothing is lost and nothing
comes twice. Where the API cannot be asked for exactly the day, as with dates in another zone, ``records.day`` and
``outside="drop"`` are needed: without them the day is refused.

**Paging.** ``single``, ``link_header``, ``next_link``, ``cursor`` (query, header or body), ``offset``, ``page_number``,
``last_key``; each with its end rule: ``empty_page``, ``no_token``, ``short_page``, ``flag`` or ``total``. Nothing is
detected by a guess. A token, or the rows of a page, that come a second time end the poll with an error. ``cap`` says
where the API ends a listing without a word, and how to go on from there.

**Rows**: the declared columns, and ours; those of the example above are

.. code-block:: sql

    id          BIGINT NOT NULL,
    title       STRING,
    updated_at  TIMESTAMP,
    document    STRING NOT NULL,    -- the whole record, JSON, byte for byte; with undeclared="json" alone
    record_key  STRING NOT NULL     -- 32 hex digits

A name of a field is one name, dots and ``@`` included; what is deeper is a JSON Pointer: ``/user/id``
(https://www.rfc-editor.org/rfc/rfc6901). Of a key that an object has twice, the last counts.

**Key.** ``record_key`` is XXH3-128 over the columns of ``records.key`` in UTF-8, joined by 0xFF. Within a day the first
record of a key is kept.

**Counts** in the report: pages, duplicates, rejected, other_day, outside_day, undeclared_dropped, lone_surrogates,
parents, ignored_parents, and what is dropped of parents, as parent_duplicates.

**Parents.** With ``parent=RestSource(…)`` the children of each of its rows are asked for. Parents are read page by page
and never collected; with ``partitions`` above 1 each partition reads all pages of the parents, and takes those whose
key falls to it. A day is whole only if the children of every parent are.

**Limits.** ``limits`` says how often the API may be asked; a day of more pages than ``per_hour`` fails. Two pages are
in memory at a time, as the next one is asked for while rows are made of one; each may have ``max_page_bytes``.
``max_pages`` ends what has no end.

**Errors.** Retriable: an answer that is cut or of another shape, 408, 425, 429 (with the time to wait) and 5xx; a page
that does not fit its end rule; a loop. A page that fails is asked for again alone, for half of ``retry_budget_seconds``
at the most; then the day begins again. A person must correct credentials, declaration and host (other statuses). A
record that does not fit its columns, or has no key, fails the day unless it is tolerated. ``errors`` declares what else
an answer means.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from airflow_provider_connect.capabilities.source import Counts, HasQuota, Inspects, NamesColumns, Proposes
from airflow_provider_connect.clients.http.asking.rules import ErrorRule, Moment, RateLimits
from airflow_provider_connect.connection import Connection, Dataset
from airflow_provider_connect.polling.counted import declared_quota
from airflow_provider_connect.polling.findings import Finding, ProposalRequest
from airflow_provider_connect.polling.quota.limits import Quota
from airflow_provider_connect.polling.quota.turns import KeyStore
from airflow_provider_connect.source import PollContext, Poller
from airflow_provider_connect.sources._rest.bounds import Bounds
from airflow_provider_connect.sources._rest.options import RestOptions, open_range_problems, option_problems
from airflow_provider_connect.sources._rest.paging import (
    Cap,
    Cursor,
    EmptyPage,
    Flag,
    LastKey,
    LinkHeader,
    NextLink,
    NoToken,
    Offset,
    PageNumber,
    ShortPage,
    Single,
    Total,
)
from airflow_provider_connect.sources._rest.records import Column, Records
from airflow_provider_connect.sources._rest.request import Count, Request
from airflow_provider_connect.stage.definition import RowRole
from airflow_provider_connect.window import Day

__all__ = [
    "Bounds",
    "Cap",
    "Column",
    "Count",
    "Cursor",
    "EmptyPage",
    "ErrorRule",
    "Flag",
    "LastKey",
    "LinkHeader",
    "Moment",
    "NextLink",
    "NoToken",
    "Offset",
    "PageNumber",
    "RateLimits",
    "Records",
    "Request",
    "RestSource",
    "ShortPage",
    "Single",
    "Total",
]


class RestSource(RestOptions, HasQuota, Counts, NamesColumns, Inspects, Proposes):
    """One stream of a REST API.

    :raises ConfigError: if the declaration is wrong, naming everything at once.
    """

    name: ClassVar[str] = "rest"
    connection_types: ClassVar[tuple[str, ...]] = ("http",)
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "zone": "reading",
        "snapshot": "reading",
        "records.key": "reading",
        "records.day": "reading",
        "records.outside": "narrowing",
        "records.at": "condition",
        "request": "condition",
        "bounds": "condition",
        "parent.request": "condition",
        "parent.records.at": "condition",
        "parent.snapshot": "narrowing",
        "errors": "condition",
    }

    proposal_fields: ClassVar[frozenset[str]] = frozenset({"path", "openapi"})

    parent: RestSource | None = Field(
        default=None, description="The source whose every row is asked for its children; on the same connection."
    )

    @model_validator(mode="before")
    @classmethod
    def _shares_its_connection(cls, values: Any) -> Any:
        """Let a parent in a file do without the connection's name."""
        parent = values.get("parent") if isinstance(values, dict) else None
        if isinstance(parent, dict) and "conn_id" in values:
            return values | {"parent": {"conn_id": values["conn_id"]} | parent}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if problems := option_problems(self):
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """Make the source of a declaration in a file, YAML or JSON.

        :param path: relative to the file that calls this, such as the DAG file.
        :param options: set beside the file's own, which they replace.
        :raises ConfigError: the file cannot be read, or what it declares is wrong.
        """
        from airflow_provider_connect.sources._rest.files import read_declaration  # noqa: PLC0415  # DAG files may do without

        return cls(**(read_declaration(Path(sys._getframe(1).f_code.co_filename).parent / path) | options))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of a declaration, for editors."""
        return cls.model_json_schema(mode="validation")

    @property
    def stream_key(self) -> str:
        """Connection and stream: the same declaration at another connection is another stream.

        A dot of the connection's is doubled: else connection a.b with stream c would be a with stream b.c.
        """
        return f"{self.conn_id.replace('.', '..')}.{self.stream}"

    @property
    def timezone(self) -> str:
        """The zone whose days are loaded."""
        return self.zone

    def check(self, connection: Connection) -> list[str]:
        """Return what is wrong with the connection, or with what is asked of it; [] if nothing is."""
        from airflow_provider_connect.clients.http.access import connection_problems  # noqa: PLC0415  # too much for a DAG file

        return [*connection_problems(connection), *open_range_problems(self)]

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Return the finding on the first page of a day."""
        from airflow_provider_connect.sources._rest.preflight import inspect  # noqa: PLC0415  # its workshop

        return inspect(self, connection, day, store)

    @classmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Return a declaration, YAML, whose guesses are comments: from an OpenAPI document, or from one answer."""
        from airflow_provider_connect.sources._rest.proposing.declaration import propose_declaration  # noqa: PLC0415  # its workshop

        return propose_declaration(request, connection)

    def quota(self, connection: Connection) -> Quota | None:
        """Return the declared limit that all who name the connection share; None if none is declared."""
        return declared_quota(self.limits, self.conn_id)

    def count_problems(self) -> list[str]:
        """Say why the API's own count cannot be compared with the rows; [] if it can."""
        return [] if self.count is not None else [f"stream {self.stream!r} declares no count"]

    def column_names(self) -> list[str]:
        """Return the names of the declared columns."""
        from airflow_provider_connect.sources._rest.records import row_schema  # noqa: PLC0415  # its workshop

        return list(row_schema(self.records, self.resolved_parent_columns).names)

    def dataset(self, connection: Connection) -> Dataset:
        """Return the API's host, and the path with its places as declared."""
        from airflow_provider_connect.clients.http.connection_fields import connection_base_url  # noqa: PLC0415  # too much for a DAG file

        base = Dataset.from_uri(connection_base_url(connection))
        path = "/".join(part.strip("/") for part in (base.name, self.request.path) if part)
        return Dataset(base.namespace, f"/{path}")

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the stream's poller."""
        from airflow_provider_connect.sources._rest.poller import RestPoller  # noqa: PLC0415  # too heavy for a DAG file

        return RestPoller(self, connection, context)
