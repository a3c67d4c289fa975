"""Client of BigQuery."""

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

JOB_SECONDS = 3600.0  # a publish takes seconds to minutes, so a longer query will never end
LONG_WAIT_SECONDS = 60.0  # longer waits are left to Airflow's retry
# Another server may not know a dataset or table that was created a moment ago. A mistyped name stays unknown.
SETTLE_SECONDS = 10.0
_IMPORTING = threading.Lock()
_PAUSES = doubling_pauses(0.2, 10.0)
_POLLS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0)


def _import_libraries() -> None:
    # The two libraries import each other, so two threads could see them partly imported.
    with _IMPORTING:
        try:
            import google.cloud.bigquery
            import google.cloud.bigquery_storage_v1  # noqa: F401
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{error.name} is missing. Install airflow-provider-connect[bigquery] on every machine that runs "
                "the task or its Spark executors"
            ) from None


@dataclass
class BigQueryApi:
    """Client of BigQuery's REST API and Storage Write API for one connection. Threads may share it.

    :param project: project that runs the jobs and pays for them.
    :param retry_budget_seconds: limit of one call with all its tries.
    :param maximum_bytes_billed: limit of a query.
    :param labels: added to every job and new table.
    :param kms_key: key for new tables and cached results.
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
    _thread_limit: threading.local = attribute(default_factory=threading.local, repr=False)

    @classmethod
    def open(cls, connection: Connection, sink_project: str | None = None, **settings: Any) -> Self:
        """Create a client from a connection. Sends nothing.

        :param sink_project: used if the connection names no project.
        :raises ConfigError: a wrong connection, no project, or no library.
        """
        _import_libraries()
        google_credentials, credentials_project = load_credentials(connection)
        project = extra_field(connection, "project") or credentials_project or sink_project
        if not project:
            raise ConfigError(f"connection {connection.conn_id!r}: no project is set. Fill in its project field")
        return cls(connection, str(project), google_credentials, **settings)

    @cached_property
    def endpoints(self) -> Endpoints:
        """Addresses of both services. The first access may call the metadata server."""
        return Endpoints.from_connection(self.connection, self.credentials.universe_domain)

    @cached_property
    def client(self) -> Any:
        """REST client of Google's library."""
        from google.cloud import bigquery

        # Both are always set, because the library would take a missing one from the environment.
        options = {"api_endpoint": self.endpoints.rest, "universe_domain": self.endpoints.universe}
        return bigquery.Client(
            project=self.project,
            credentials=self.credentials,
            _http=rest_session(self.credentials, self._thread_limit, proxy_url(self.connection)),
            client_options=options,
        )

    @property
    def write_client(self) -> Any:
        """Storage Write client, with one channel for all threads."""
        from google.cloud.bigquery_storage_v1 import BigQueryWriteClient
        from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

        with self._lock:
            if self._write is None:
                channel = grpc_channel(self.credentials, self._thread_limit, self.endpoints, proxy_url(self.connection))
                client: Any = BigQueryWriteClient
                self._write = client(transport=BigQueryWriteGrpcTransport(channel=channel))
            return self._write

    def close(self) -> None:
        """Close all connections."""
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
        """Return ``function(*args, timeout=…, retry=None, **kwargs)``. Retries errors that may pass.

        The call must be repeatable.

        :param action: for messages.
        :param retry_missing_seconds: time to retry "not found", for a new resource.
        """
        with self.time_limit(self.retry_budget_seconds) as seconds:
            patience = Patience(seconds, _PAUSES, jitter=FROM_HALF)
            while True:
                timeout = max(0.1, min(self.timeout_seconds, patience.left_seconds))
                outer, self._thread_limit.seconds = getattr(self._thread_limit, "seconds", None), timeout
                try:
                    return function(*args, timeout=timeout, retry=None, **kwargs)
                except Exception as error:  # noqa: BLE001 - whatever the libraries raise is classified
                    connect_error = classify(error, action)
                finally:
                    self._thread_limit.seconds = outer
                is_missing = isinstance(connect_error, (MissingError, HiddenError))
                may_pass = (
                    patience.spent_seconds < retry_missing_seconds if is_missing else _is_retried_by_call(connect_error)
                )
                if not may_pass or not patience.wait_and_retry():
                    raise connect_error

    @contextmanager
    def time_limit(self, seconds: float) -> Iterator[float]:
        """Limit the total time of this thread's calls inside the block, for cleanup. Yields the available seconds."""
        outer = getattr(self._thread_limit, "deadline", None)
        deadline = min(time.monotonic() + seconds, outer or float("inf"))
        self._thread_limit.deadline = deadline
        try:
            yield deadline - time.monotonic()
        finally:
            self._thread_limit.deadline = outer

    def locate(self, table_ref: TableRef) -> str:
        """Return the location of a table's dataset, for all later jobs.

        :raises MissingError: no dataset, even after :data:`SETTLE_SECONDS`.
        """
        if self.location is None:
            name = f"{table_ref.project}.{table_ref.dataset}"
            missing_since = self._missing_since.setdefault(name, time.monotonic())
            seconds_left = missing_since + SETTLE_SECONDS - time.monotonic()
            self.location = self.call(
                f"reading dataset {name}", self.client.get_dataset, name, retry_missing_seconds=seconds_left
            ).location
        return str(self.location)

    def query(
        self, sql: str | Callable[[str], str], *, action: str, labels: dict[str, str], job_id: str | None = None
    ) -> tuple[list[dict[str, Any]], Any]:
        """Run one query or script as one job. Returns the rows of its last SELECT, and the job.

        If BigQuery's own error fails the job, job ``<job_id>_1`` (then ``_2``) runs the SQL again, which must not
        double its effect.

        :param sql: text, or a function of the job's id.
        """
        base_id = job_id or f"connect_query_{uuid.uuid4().hex}"
        patience = Patience(self.retry_budget_seconds, _PAUSES, jitter=FROM_HALF)
        while True:
            attempt_id = f"{base_id}_{patience.tries - 1}" if patience.tries > 1 else base_id
            job = self.start_job(
                attempt_id,
                self._job_inserter(sql if isinstance(sql, str) else sql(attempt_id), attempt_id, labels),
                action,
            )
            try:
                self.wait_for_job(job, action)
                break
            except RetriableError as error:
                if not _is_job_failure(job, error) or not patience.wait_and_retry(error.retry_after_seconds):
                    raise
        rows = self.call(action, lambda **how: [dict(row) for row in job.result(job_retry=None, **how)])
        return rows, job

    def _job_inserter(self, sql: str, name: str, labels: dict[str, str]) -> Callable[..., Any]:
        from google.cloud import bigquery

        config = bigquery.QueryJobConfig(
            labels={**self.labels, **labels},
            use_legacy_sql=False,
            job_timeout_ms=int(JOB_SECONDS * 1000),
            use_query_cache=False,
        )
        if self.maximum_bytes_billed is not None:
            config.maximum_bytes_billed = self.maximum_bytes_billed
            # maximum_bytes_billed is not documented to hold for the statements inside a script.
            config.script_options = bigquery.ScriptOptions(statement_byte_budget=self.maximum_bytes_billed)
        if self.kms_key and sql.lstrip()[:6].upper().startswith(("SELECT", "WITH")):
            config.destination_encryption_configuration = bigquery.EncryptionConfiguration(self.kms_key)
        common = {"job_config": config, "job_id": name, "location": self.location, "job_retry": None}
        return lambda **how: self.client.query(sql, **common, **how)

    def start_job(
        self, job_id: str, insert: Callable[..., Any], action: str, retry_missing_seconds: float = 0.0
    ) -> Any:
        """Start a job under our own id. After a lost response, return the started job."""
        tried = False

        def once(*, timeout: float, retry: None) -> Any:
            nonlocal tried
            # BigQuery answers a second insert with 409, but looking first is free and does not depend on that.
            job = self._find_job(job_id, timeout) if tried else None
            tried = True
            if job is not None:
                return job
            try:
                return insert(timeout=timeout, retry=retry)
            except Exception as error:
                if not isinstance(classify(error, action), ExistsError):
                    raise
            job = self._find_job(job_id, timeout)
            if job is None:
                raise RetriableError(f"{action}: BigQuery has a job {job_id} but does not show it yet. Try again")
            return job

        return self.call(action, once, retry_missing_seconds=retry_missing_seconds)

    def _find_job(self, job_id: str, timeout: float) -> Any:
        from google.api_core.exceptions import NotFound

        try:
            return self.client.get_job(job_id, location=self.location, retry=None, timeout=timeout)
        except NotFound:
            return None

    def wait_for_job(self, job: Any, action: str) -> Any:
        """Wait until a job is done, and return it.

        :raises ConnectError: the job failed, or was not done after :data:`JOB_SECONDS`.
        """
        name, patience = job.job_id, Patience(JOB_SECONDS, _POLLS)
        while job.state != "DONE":
            if not patience.wait_and_poll():
                self.call(f"{action}: cancelling the job", job.cancel)
                raise RetriableError(
                    f"{action}: job {name} was not done after {JOB_SECONDS:.0f} s and has been cancelled"
                )
            self.call(action, job.reload)
        if job.error_result:
            raise error_from_result(job.error_result, f"{action} (job {name})")
        return job

    def console_link(self, job_id: str) -> str | None:
        """Return the URL of a job in Google's console, or None in another universe."""
        if self.endpoints.universe != DEFAULT_UNIVERSE:
            return None
        name = f"bq:{self.location or 'US'}:{job_id}"
        return f"https://console.cloud.google.com/bigquery?project={self.project}&j={name}&page=queryresults"


def is_retried_in_task(error: ConnectError) -> bool:
    """Return True if the task itself waits for an error to pass."""
    return isinstance(error, RetriableError) and (error.retry_after_seconds or 0.0) <= LONG_WAIT_SECONDS


def _is_retried_by_call(error: ConnectError) -> bool:
    return is_retried_in_task(error) and not isinstance(error, (ConflictError, GoneError, StaleError))


def _is_job_failure(job: Any, error: RetriableError) -> bool:
    # False for a job that is still running, or that a person or its time limit has stopped.
    reason = (job.error_result or {"reason": "stopped"}).get("reason")
    return reason not in ("stopped", "timeout") and _is_retried_by_call(error)
