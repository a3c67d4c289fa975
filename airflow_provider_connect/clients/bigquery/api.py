"""How BigQuery is spoken to: one client, every call with a timeout and a limited number of tries.

The client library's own retry goes on for ten minutes and hides what it waits for, so it is switched off everywhere and
:meth:`BigQueryApi.call` tries again instead.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cached_property
from typing import Any, Self

from airflow_provider_connect.clients.bigquery.credentials import load_credentials, proxy_url
from airflow_provider_connect.clients.bigquery.errors import (
    ConflictError,
    ExistsError,
    GoneError,
    HiddenError,
    MissingError,
    StaleError,
    classify,
    error_from_result,
)
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.clients.bigquery.transport import (
    DEFAULT_UNIVERSE,
    Endpoints,
    extra_field,
    grpc_channel,
    rest_session,
)
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience, doubling_pauses

JOB_SECONDS = 3600.0  # a day's publish takes seconds to minutes; longer is a query that will never end
LONG_WAIT_SECONDS = 60.0  # a wait longer than this is for Airflow, not for a sleeping task
# A dataset or table made a moment ago may be unknown to the next server asked; one that was mistyped is so for ever.
SETTLE_SECONDS = 10.0
_IMPORTING = threading.Lock()
_PAUSES = doubling_pauses(0.2, 10.0)
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


@dataclass
class BigQueryApi:
    """Both of BigQuery's services, for one connection. Threads may share it.

    :param project: where jobs run and are paid for.
    :param timeout_seconds: for one request.
    :param retry_budget_seconds: for a call with all its tries.
    :param maximum_bytes_billed: a query that would read more fails before it costs anything.
    :param location: where jobs run; None lets BigQuery find it by the tables. :meth:`locate` sets it.
    :param labels: of every job and new table, beside those that it is given.
    :param kms_key: of new tables, and of what a SELECT leaves in BigQuery's cache for a day. Scripts, DDL and DML take
        none: BigQuery refuses it there, and under an organization's rule for such keys asks for the project's default
        key.
    """

    connection: Connection = attribute(repr=False)
    project: str
    credentials: Any = attribute(repr=False)
    timeout_seconds: float = 60.0
    retry_budget_seconds: float = 90.0
    maximum_bytes_billed: int | None = None
    location: str | None = None
    labels: dict[str, str] = attribute(default_factory=dict)
    kms_key: str | None = None
    _write: Any = attribute(default=None, init=False, repr=False)
    _missing_since: dict[str, float] = attribute(default_factory=dict, repr=False)
    _lock: threading.Lock = attribute(default_factory=threading.Lock, repr=False)
    _limit: threading.local = attribute(default_factory=threading.local, repr=False)

    @classmethod
    def open(cls, connection: Connection, sink_project: str | None = None, **settings: Any) -> Self:
        """Read the connection; nothing is sent yet.

        :param sink_project: the project of the sink's table, for a connection that names none.
        :param settings: parameters of the class.
        :raises ConfigError: the connection is wrong, there is no project anywhere, or Google's libraries are missing.
        """
        _import_libraries()
        who, own_project = load_credentials(connection)
        project = extra_field(connection, "project") or own_project or sink_project
        if not project:
            raise ConfigError(f"connection {connection.conn_id!r}: no project; fill in its project field")
        return cls(connection, str(project), who, **settings)

    @cached_property
    def endpoints(self) -> Endpoints:
        """Where both services are; the first look may ask the metadata server whose credentials these are."""
        return Endpoints.from_connection(self.connection, self.credentials.universe_domain)

    @cached_property
    def client(self) -> Any:
        """The library's REST client."""
        from google.cloud import bigquery

        # Both are always given: what is missing the library would take from the environment.
        options = {"api_endpoint": self.endpoints.rest, "universe_domain": self.endpoints.universe}
        return bigquery.Client(
            project=self.project,
            credentials=self.credentials,
            _http=rest_session(self.credentials, self._limit, proxy_url(self.connection)),
            client_options=options,
        )

    @property
    def write_client(self) -> Any:
        """The library's client of the Storage Write API; one channel for all threads."""
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
        from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

        with self._lock:
            if self._write is None:
                channel = grpc_channel(self.credentials, self._limit, self.endpoints, proxy_url(self.connection))
                client: Any = BigQueryWriteClient
                self._write = client(transport=BigQueryWriteGrpcTransport(channel=channel))
            return self._write

    def close(self) -> None:
        """Let go of the connections."""
        if (client := self.__dict__.pop("client", None)) is not None:
            client.close()
        write, self._write = self._write, None
        if write is not None:
            write.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def call(
        self, action: str, function: Callable[..., Any], *args: Any, retry_missing_seconds: float = 0.0, **kwargs: Any
    ) -> Any:
        """Return ``function(*args, timeout=…, retry=None, **kwargs)``, tried again while that may help.

        A call made by ``function`` itself has what is left of this one's budget. Only for
        calls that may be repeated: after a lost answer the next try may find its own work (409).

        :param doing: what is being done, for messages.
        :param missing_seconds: how long "not found" is tried again too, for something made a moment ago.
        :raises ConnectError: as :func:`~.errors.classify` says.
        """
        with self.time_limit(self.retry_budget_seconds) as seconds:
            patience = Patience(seconds, _PAUSES, jitter=FROM_HALF)
            while True:
                timeout = max(0.1, min(self.timeout_seconds, patience.left_seconds))
                outer, self._limit.seconds = getattr(self._limit, "seconds", None), timeout
                try:
                    return function(*args, timeout=timeout, retry=None, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever the libraries raise is classified
                    ours = classify(error, action)
                finally:
                    self._limit.seconds = outer
                is_missing = isinstance(ours, (MissingError, HiddenError))
                may_pass = patience.spent_seconds < retry_missing_seconds if is_missing else _passes_soon(ours)
                if not may_pass or not patience.wait_and_retry():
                    raise ours

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[float]:
        """Give all calls that this thread makes inside the block together no more than so many seconds; yield how many.

        For tidying up: a service that did not answer the work before would be waited for once more a call.
        """
        outer = getattr(self._limit, "deadline", None)
        deadline = min(time.monotonic() + seconds, outer or float("inf"))
        self._limit.deadline = deadline
        try:
            yield deadline - time.monotonic()
        finally:
            self._limit.deadline = outer

    def locate(self, table_ref: TableRef) -> str:
        """Return the location of the table's dataset, and run all jobs there from now on.

        :raises MissingError: there is no such dataset, not even :data:`SETTLE_SECONDS` after the first look.
        """
        if self.location is None:
            name = f"{table_ref.project}.{table_ref.dataset}"
            first = self._missing_since.setdefault(name, time.monotonic())
            left = first + SETTLE_SECONDS - time.monotonic()
            self.location = self.call(
                f"reading dataset {name}", self.client.get_dataset, name, retry_missing_seconds=left
            ).location
        return str(self.location)

    def query(
        self, sql: str | Callable[[str], str], *, action: str, labels: dict[str, str], job_id: str | None = None
    ) -> tuple[list[dict[str, Any]], Any]:
        """Run one query or script as one job, and return the rows of its last SELECT and the job.

        A job that ends with an error of BigQuery's own is followed by another one, ``<job_id>_1`` and so on, so the SQL
        must have its effect once however often it runs. A lost conflict is the caller's to repeat.

        :param sql: the text, or what makes it of the id that the job will have.
        :param job_id: to be given by a caller who must find the job again; otherwise one is made up. In both cases a
            lost answer leads to the job that was started, never to a second one.
        :raises ConnectError: as :func:`~.errors.classify` says.
        """
        name = job_id or f"connect_query_{uuid.uuid4().hex}"
        patience = Patience(self.retry_budget_seconds, _PAUSES, jitter=FROM_HALF)
        while True:
            own = f"{name}_{patience.tries - 1}" if patience.tries > 1 else name
            job = self.start_job(own, self._insert(sql if isinstance(sql, str) else sql(own), own, labels), action)
            try:
                self.wait_for_job(job, action)
                break
            except RetriableError as error:
                if not _failed_by_itself(job, error) or not patience.wait_and_retry(error.retry_after_seconds):
                    raise
        rows = self.call(action, lambda **how: [dict(row) for row in job.result(job_retry=None, **how)])
        return rows, job

    def _insert(self, sql: str, name: str, labels: dict[str, str]) -> Callable[..., Any]:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(
            labels={**self.labels, **labels},
            use_legacy_sql=False,
            job_timeout_ms=int(JOB_SECONDS * 1000),
            use_query_cache=False,
        )
        if self.maximum_bytes_billed is not None:
            config.maximum_bytes_billed = self.maximum_bytes_billed
            # The other one is not said to hold for the statements inside a script.
            config.script_options = bigquery.ScriptOptions(statement_byte_budget=self.maximum_bytes_billed)
        if self.kms_key and sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.kms_key)
        common = {"job_config": config, "job_id": name, "location": self.location, "job_retry": None}
        return lambda **how: self.client.query(sql, **common, **how)

    def start_job(
        self, job_id: str, insert: Callable[..., Any], action: str, retry_missing_seconds: float = 0.0
    ) -> Any:
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
                if not isinstance(classify(error, action), ExistsError):
                    raise
            found = self._find(job_id, timeout)
            if found is None:
                raise RetriableError(f"{action}: BigQuery has a job {job_id} but does not show it; try again")
            return found

        return self.call(action, once, retry_missing_seconds=retry_missing_seconds)

    def _find(self, job_id: str, timeout: float) -> Any:
        from google.api_core.exceptions import NotFound

        try:
            return self.client.get_job(job_id, location=self.location, retry=None, timeout=timeout)
        except NotFound:
            return None

    def wait_for_job(self, job: Any, action: str) -> Any:
        """Wait until a job is done; return it.

        :raises ConnectError: it failed, or is not done after :data:`JOB_SECONDS`.
        """
        name, patience = job.job_id, Patience(JOB_SECONDS, _POLLS)
        while job.state != "DONE":
            if not patience.wait_and_poll():
                self.call(f"{action}: cancelling it", job.cancel)
                raise RetriableError(f"{action}: job {name} is not done after {JOB_SECONDS:.0f} s; cancelled")
            self.call(action, job.reload)
        if job.error_result:
            raise error_from_result(job.error_result, f"{action} (job {name})")
        return job

    def console_link(self, job_id: str) -> str | None:
        """Return the address of a job of this project in Google's console; None in another universe."""
        if self.endpoints.universe != DEFAULT_UNIVERSE:
            return None
        name = f"bq:{self.location or 'US'}:{job_id}"
        return f"https://console.cloud.google.com/bigquery?project={self.project}&j={name}&page=queryresults"


def is_retried_in_task(error: ConnectError) -> bool:
    """Tell whether an error may pass while the task waits; what takes longer is for Airflow's retry."""
    return isinstance(error, RetriableError) and (error.retry_after_seconds or 0.0) <= LONG_WAIT_SECONDS


def _passes_soon(error: ConnectError) -> bool:
    return is_retried_in_task(error) and not isinstance(error, (ConflictError, GoneError, StaleError))


def _failed_by_itself(job: Any, error: RetriableError) -> bool:
    # Neither one that is still running, nor one that a person or its own time limit has stopped.
    reason = (job.error_result or {"reason": "stopped"}).get("reason")
    return reason not in ("stopped", "timeout") and _passes_soon(error)
