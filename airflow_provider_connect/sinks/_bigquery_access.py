"""How BigQuery is spoken to: one client, every call with a timeout and a limited number of tries.

The client library's own retry goes on for ten minutes and hides what it waits for, so it is switched off everywhere and
:meth:`Api.call` tries again instead.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cached_property
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter

from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.sinks._bigquery_credentials import check_connection, credentials, field
from airflow_provider_connect.sinks._bigquery_errors import (
    ConflictError,
    ExistsError,
    MissingError,
    StaleError,
    classify,
    from_result,
)
from airflow_provider_connect.sinks._bigquery_place import Place

__all__ = ["JOB_SECONDS", "Api", "Place", "check_connection"]

JOB_SECONDS = 3600.0  # a day's publish takes seconds to minutes; longer is a query that will never end
LONG_WAIT_SECONDS = 60.0  # a wait longer than this is for Airflow, not for a sleeping task
_IMPORTING = threading.Lock()
_PAUSES = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0)
_POLLS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


def _import_libraries() -> None:
    # Both import each other's parts; two threads that begin at the two ends see them half made.
    with _IMPORTING:
        try:
            import google.cloud.bigquery
            import google.cloud.bigquery_storage_v1  # noqa: F401
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{error.name} is missing: install airflow-provider-connect[bigquery] where the task and its Spark "
                "executors run"
            ) from None


class _InTime(HTTPAdapter):
    """Gives no request more time than the thread's call has: the library wants 120 s at least for a query's rows."""

    def __init__(self, limit: threading.local) -> None:
        super().__init__(pool_maxsize=32)
        self._limit = limit

    def send(
        self,
        request: Any,
        stream: bool = False,  # noqa: FBT001, FBT002 - the signature is that of requests
        timeout: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> requests.Response:
        limit = getattr(self._limit, "seconds", None)
        if limit is not None:
            timeout = min(timeout or limit, limit)
        return super().send(request, stream, timeout, *args, **kwargs)


@dataclass
class Api:
    """Both of BigQuery's services, for one connection. Threads may share it.

    :param project: where jobs run and are paid for.
    :param timeout_seconds: for one request.
    :param retry_budget_seconds: for a call with all its tries.
    :param maximum_bytes_billed: a query that would read more fails before it costs anything.
    :param location: where jobs run; None lets BigQuery find it by the tables. :meth:`locate` sets it.
    """

    connection: Connection = attribute(repr=False)
    project: str
    credentials: Any = attribute(repr=False)
    timeout_seconds: float = 60.0
    retry_budget_seconds: float = 90.0
    maximum_bytes_billed: int | None = None
    location: str | None = None
    _lock: threading.Lock = attribute(default_factory=threading.Lock, repr=False)
    _limit: threading.local = attribute(default_factory=threading.local, repr=False)

    @classmethod
    def open(
        cls,
        connection: Connection,
        sink_project: str | None = None,
        timeout_seconds: float = 60.0,
        retry_budget_seconds: float = 90.0,
        maximum_bytes_billed: int | None = None,
    ) -> Self:
        """Read the connection; nothing is sent yet.

        :param sink_project: the project of the sink's table, for a connection that names none.
        :raises ConfigError: the connection is wrong, there is no project anywhere, or Google's libraries are missing.
        """
        _import_libraries()
        who, own_project = credentials(connection)
        project = field(connection, "project") or own_project or sink_project
        if not project:
            raise ConfigError(f"connection {connection.conn_id!r}: no project; fill in its project field")
        return cls(connection, str(project), who, timeout_seconds, retry_budget_seconds, maximum_bytes_billed)

    @cached_property
    def client(self) -> Any:
        """The library's REST client."""
        from google.auth.transport.requests import AuthorizedSession, Request
        from google.cloud import bigquery

        endpoint = field(self.connection, "emulator_rest")
        # Given a session of its own, the sign-in does not try each timeout four times over, as the default one does.
        sign_in = requests.Session()
        session: Any = AuthorizedSession(self.credentials, auth_request=Request(sign_in))  # type: ignore[no-untyped-call]
        for one in (sign_in, session):
            for scheme in ("https://", "http://"):
                one.mount(scheme, _InTime(self._limit))
        return bigquery.Client(
            project=self.project,
            credentials=self.credentials,
            _http=session,
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )

    @property
    def write(self) -> Any:
        """The library's client of the Storage Write API; one channel for all threads."""
        with self._lock:
            return self._write

    @cached_property
    def _write(self) -> Any:
        import grpc
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
        from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            # gRPC's own two minutes between attempts to connect would outlast every budget here.
            ("grpc.max_reconnect_backoff_ms", 5000),
        ]
        target = field(self.connection, "emulator_grpc")
        if target:
            channel = grpc.insecure_channel(target, options=options)
        else:
            channel = BigQueryWriteGrpcTransport.create_channel(credentials=self.credentials, options=options)
        return BigQueryWriteClient(transport=BigQueryWriteGrpcTransport(channel=channel))  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Let go of the connections."""
        for name in ("client", "_write"):
            opened = self.__dict__.pop(name, None)
            if name == "client" and opened is not None:
                opened.close()
            elif opened is not None:
                opened.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(
        self, doing: str, function: Callable[..., Any], *args: Any, missing_seconds: float = 0.0, **kwargs: Any
    ) -> Any:
        """Return ``function(*args, timeout=…, retry=None, **kwargs)``, tried again while that may help.

        Only for calls that may be repeated: after a lost answer the next try may find its own work (409).

        :param doing: what is being done, for messages.
        :param missing_seconds: how long "not found" is tried again too, for something made a moment ago.
        :raises ConnectError: as :func:`~._bigquery_errors.classify` says.
        """
        started = time.monotonic()
        for pause in itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1])):
            left = self.retry_budget_seconds - (time.monotonic() - started)
            timeout = max(0.1, min(self.timeout_seconds, left))
            self._limit.seconds = timeout
            try:
                return function(*args, timeout=timeout, retry=None, **kwargs)
            except Exception as error:  # noqa: BLE001 - whatever the libraries raise is classified
                ours = classify(error, doing)
            finally:
                self._limit.seconds = None
            spent = time.monotonic() - started
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            if not _worth_it(ours, spent, missing_seconds) or spent + wait >= self.retry_budget_seconds:
                raise ours
            time.sleep(wait)
        raise AssertionError

    def locate(self, place: Place) -> str:
        """Return the location of the table's dataset, and run all jobs there from now on."""
        if self.location is None:
            name = f"{place.project}.{place.dataset}"
            self.location = self.call(f"reading dataset {name}", self.client.get_dataset, name).location
        return str(self.location)

    def query(
        self, sql: str, *, doing: str, labels: dict[str, str], job_id: str | None = None
    ) -> tuple[list[dict[str, Any]], Any]:
        """Run one query or script as one job, and return the rows of its last SELECT and the job.

        :param job_id: to be given by a caller who must find the job again; otherwise one is made up. In both cases a
            lost answer leads to the job that was started, never to a second one.
        :raises ConnectError: as :func:`~._bigquery_errors.classify` says.
        """
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(
            labels=labels, use_legacy_sql=False, job_timeout_ms=int(JOB_SECONDS * 1000), use_query_cache=False
        )
        if self.maximum_bytes_billed is not None:
            config.maximum_bytes_billed = self.maximum_bytes_billed
        name = job_id or f"connect_query_{uuid.uuid4().hex}"

        def insert(*, timeout: float, retry: None) -> Any:
            return self.client.query(
                sql,
                job_config=config,
                job_id=name,
                location=self.location,
                job_retry=None,
                retry=retry,
                timeout=timeout,
            )

        job = self.wait(self.start(name, insert, doing), doing)
        rows = self.call(doing, lambda **how: [dict(row) for row in job.result(job_retry=None, **how)])
        return rows, job

    def start(self, job_id: str, insert: Callable[..., Any], doing: str) -> Any:
        """Start a job under an id of our own, and return it; after a lost answer, return the one that was started.

        :param insert: takes ``timeout`` and ``retry``.
        """
        tried = False

        def once(*, timeout: float, retry: None) -> Any:
            nonlocal tried
            # BigQuery answers a second insert with 409, but to look first costs nothing and needs no such promise.
            found = self._find(job_id, timeout) if tried else None
            tried = True
            if found is not None:
                return found
            try:
                return insert(timeout=timeout, retry=retry)
            except Exception as error:
                if not isinstance(classify(error, doing), ExistsError):
                    raise
            found = self._find(job_id, timeout)
            if found is None:
                raise RetriableError(f"{doing}: BigQuery has a job {job_id} but does not show it; try again")
            return found

        return self.call(doing, once)

    def _find(self, job_id: str, timeout: float) -> Any:
        from google.api_core.exceptions import NotFound

        try:
            return self.client.get_job(job_id, location=self.location, retry=None, timeout=timeout)
        except NotFound:
            return None

    def wait(self, job: Any, doing: str) -> Any:
        """Wait until a job is done; return it.

        :raises ConnectError: it failed, or is not done after :data:`JOB_SECONDS`.
        """
        name, deadline = job.job_id, time.monotonic() + JOB_SECONDS
        for pause in itertools.chain(_POLLS, itertools.repeat(_POLLS[-1])):
            if job.state == "DONE":
                break
            if time.monotonic() > deadline:
                self.call(f"{doing}: cancelling it", job.cancel)
                raise RetriableError(f"{doing}: job {name} is not done after {JOB_SECONDS:.0f} s; cancelled")
            time.sleep(pause)
            self.call(doing, job.reload)
        if job.error_result:
            raise from_result(job.error_result, f"{doing} (job {name})")
        return job

    def console_link(self, job_id: str) -> str:
        """Return the address of a job of this project in Google's console."""
        name = f"bq:{self.location or 'US'}:{job_id}"
        return f"https://console.cloud.google.com/bigquery?project={self.project}&j={name}&page=queryresults"


def _worth_it(error: ConnectError, spent_seconds: float, missing_seconds: float) -> bool:
    if isinstance(error, MissingError):
        return spent_seconds < missing_seconds
    if isinstance(error, (ConflictError, StaleError)) or not isinstance(error, RetriableError):
        return False
    return (error.retry_after_seconds or 0.0) <= LONG_WAIT_SECONDS
