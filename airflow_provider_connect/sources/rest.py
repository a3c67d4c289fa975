"""Loads any REST API that answers JSON, from a declaration of requests, paging and records.

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

A YAML or JSON file may hold the declaration (:meth:`RestSource.from_file`). ``docs/any-api.md`` is the guide to
placeholders, paging and end rules.

**Connection** (type ``http``, Airflow's own. All fields: ``docs/http_connection.md``)

============ =====================================================================================
host         ``name``, or a URL with an optional path. http only for loopback, or without credentials
port         of that host
login        user name, or client id
password     password, token, key or client secret
extra        ``auth``: kind of credentials: none, basic, bearer, api_key, oauth2_client_credentials,
             oauth2_refresh_token, session · ``headers`` · ``allowed_hosts`` · ``proxy`` · ``ca_bundle``
============ =====================================================================================

Credentials belong to the connection, never to the declaration.

**Request.** Path, params, headers, body and form may contain placeholders, such as ``{day.start}``,
``{day.end:epoch_ms}``, ``{parent.id}`` and ``{page.value}``. Nothing is evaluated.

**Days and bounds.** A day is a calendar day of ``zone``. ``bounds`` declares whether the API includes start and end,
its granularity and its time format. An inclusive end is requested one granularity earlier, so no record is lost or
repeated. If the API cannot select exactly the day, ``records.day`` and ``outside="drop"`` are required.

**Paging.** Each kind except ``single`` has an end rule. A repeated token or page fails the poll. ``cap`` continues a
listing that the API ends silently.

**Rows**: the declared columns, ``document`` and ``record_key``. For the example above:

.. code-block:: sql

    id          BIGINT NOT NULL,
    title       STRING,
    updated_at  TIMESTAMP,
    document    STRING NOT NULL,    -- whole record, JSON, byte for byte, only with undeclared="json"
    record_key  STRING NOT NULL     -- 32 hex digits

A field's name may contain dots and ``@``. A nested field is a JSON Pointer: ``/user/id``
(https://www.rfc-editor.org/rfc/rfc6901). If an object repeats a key, the last one counts.

**Key.** ``record_key`` is XXH3-128 over the columns of ``records.key`` in UTF-8, joined by 0xFF. Of equal records with
the same key, a day keeps one. If they differ in a declared column, the poll starts again once and then fails, unless
``records.on_duplicate`` names the record that counts.

**Counts** in the report: pages, duplicates, differing_duplicates, rejected, other_day, outside_day,
undeclared_dropped, lone_surrogates, parents, ignored_parents, filtered_parents, parents_without_value,
repeated_listings, column_absent.NAME, column_refused.NAME, and counts of the parent source, such as parent_duplicates.

**Parents.** With ``parent=RestSource(…)`` the source requests the children of each parent row, page by page. A parent
may have a parent. ``parent_values`` declares values to request in turn. With ``partitions`` above 1, each partition
reads all parent pages and takes its share by key. A day needs the children of every parent.

**Limits.** ``limits`` sets the request rate. A day with more pages than ``per_hour`` fails. Two pages of at most
``max_page_bytes`` are in memory. A poll with more than ``max_pages`` pages fails.

**Errors.** Retriable: an incomplete or unexpected answer, 408, 425, 429 (with the requested pause), 5xx, a page that
contradicts its end rule, a loop. A failed page is repeated alone, for at most half of ``retry_budget_seconds``. Then
the day starts again. If a page with a token ends the listing after a repeat, the listing is read once more, because the
token may have died. Other statuses need a person. A record that does not fit its columns, or lacks its key, fails the
day unless tolerated. ``errors`` declares the meaning of other answers.
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
from airflow_provider_connect.sources._rest.declaration_check import open_range_problems, option_problems
from airflow_provider_connect.sources._rest.options import RestOptions
from airflow_provider_connect.sources._rest.pages.paging import (
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
from airflow_provider_connect.sources._rest.records import Column, NewestBy, Records
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
    "NewestBy",
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

    :raises ConfigError: names every problem of the declaration.
    """

    name: ClassVar[str] = "rest"
    connection_types: ClassVar[tuple[str, ...]] = ("http",)
    row_options: ClassVar[Mapping[str, RowRole]] = {
        "zone": "reading",
        "snapshot": "reading",
        "records.key": "reading",
        "records.on_duplicate": "reading",
        "records.day": "reading",
        "records.outside": "narrowing",
        "records.order": "narrowing",
        "records.at": "condition",
        "records.layout": "reading",
        "records.format": "reading",
        "records.delimiter": "reading",
        "request": "condition",
        "bounds": "condition",
        "parent.request": "condition",
        "parent.records.at": "condition",
        "parent.snapshot": "narrowing",
        "parent.parent": "condition",
        "parent.parent_where": "condition",
        "parent.parent_without_value": "narrowing",
        "parent.parent_values": "condition",
        "parent_where": "condition",
        "parent_without_value": "narrowing",
        "parent_values": "condition",
        "errors": "condition",
    }

    proposal_fields: ClassVar[frozenset[str]] = frozenset({"path", "openapi"})

    parent: RestSource | None = Field(
        default=None,
        description="Source of the parents, on the same connection. Each of its rows has a request for its children.",
    )

    @model_validator(mode="before")
    @classmethod
    def _shares_its_connection(cls, values: Any) -> Any:
        """Copy ``conn_id`` to a parent that a file declares without one."""
        parent = values.get("parent") if isinstance(values, dict) else None
        if isinstance(parent, dict) and "conn_id" in values:
            return values | {"parent": {"conn_id": values["conn_id"]} | parent}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.templates or (self.parent is not None and self.parent.templates):
            return self  # compared once the task has rendered them
        if problems := option_problems(self):
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Self:
        """Create the source from a YAML or JSON declaration.

        :param path: relative to the calling file, such as the DAG file.
        :param options: replace the file's.
        :raises ConfigError: the file is unreadable, or its declaration is wrong.
        """
        from airflow_provider_connect.sources._rest.files import read_declaration  # noqa: PLC0415  # DAG files may do without

        return cls(**(read_declaration(Path(sys._getframe(1).f_code.co_filename).parent / path) | options))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of a declaration in a file, for editors. The DAG may supply ``conn_id``."""
        schema = cls.model_json_schema(mode="validation")
        source = schema["$defs"][cls.__name__]
        source["required"] = [name for name in source["required"] if name != "conn_id"]
        return schema

    def concurrent_polls(self, days: int) -> int:
        """Return how many partitions of a window may be polled concurrently, those of shared parents included."""
        return self.partitions * super().concurrent_polls(days)

    @property
    def stream_key(self) -> str:
        """Connection id and stream, joined by a dot.

        A dot in the id is doubled. Otherwise connection a.b with stream c would equal a with stream b.c.
        """
        return f"{self.conn_id.replace('.', '..')}.{self.stream}"

    @property
    def timezone(self) -> str:
        """Option ``zone``."""
        return self.zone

    def check(self, connection: Connection) -> list[str]:
        """Return the problems of the connection, and of a time range without a start or an end."""
        from airflow_provider_connect.clients.http.access import connection_problems  # noqa: PLC0415  # too much for a DAG file

        return [*connection_problems(connection), *open_range_problems(self)]

    def inspect(self, connection: Connection, day: Day, store: KeyStore | None) -> list[Finding]:
        """Request a day's first page. Returns one finding: its number of rows."""
        from airflow_provider_connect.sources._rest.preflight import inspect  # noqa: PLC0415  # its workshop

        return inspect(self, connection, day, store)

    @classmethod
    def propose(cls, request: ProposalRequest, connection: Connection | None, store: KeyStore | None) -> str:
        """Return a YAML declaration from an OpenAPI document or one answer. Comments mark guesses."""
        from airflow_provider_connect.sources._rest.proposing.declaration import propose_declaration  # noqa: PLC0415  # its workshop

        return propose_declaration(request, connection)

    def quota(self, connection: Connection) -> Quota | None:
        """Return the declared hourly limit, shared by all users of the connection, or None."""
        return declared_quota(self.limits, self.conn_id)

    def count_problems(self) -> list[str]:
        """Return a message if the declaration has no ``count``."""
        return [] if self.count is not None else [f"stream {self.stream!r} declares no count"]

    def column_names(self) -> list[str]:
        """Return the names of all columns."""
        from airflow_provider_connect.sources._rest.records import row_schema  # noqa: PLC0415  # its workshop

        return list(row_schema(self.records, self.resolved_parent_columns).names)

    def dataset(self, connection: Connection) -> Dataset:
        """Return the lineage dataset: the API's host and the declared path."""
        from airflow_provider_connect.clients.http.connection_fields import connection_base_url  # noqa: PLC0415  # too much for a DAG file

        base = Dataset.from_uri(connection_base_url(connection))
        path = "/".join(part.strip("/") for part in (base.name, self.request.path) if part)
        return Dataset(base.namespace, f"/{path}")

    def open(self, connection: Connection, context: PollContext) -> Poller:
        """Return the poller."""
        from airflow_provider_connect.sources._rest.poller import RestPoller  # noqa: PLC0415  # too heavy for a DAG file

        return RestPoller(self, connection, context)
