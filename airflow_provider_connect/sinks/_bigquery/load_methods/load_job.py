"""Loads Parquet files into a BigQuery table by one load job with a fixed id.

A load job appends all of its files or none (https://cloud.google.com/bigquery/docs/reference/rest/v2/Job, 2026-11).
BigQuery allows five changes of a table in ten seconds, and 1,500 load jobs a day
(https://cloud.google.com/bigquery/quotas#standard_tables, 2026-11).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_connect.clients.bigquery.api import SETTLE_SECONDS, BigQueryApi, is_retried_in_task
from airflow_provider_connect.clients.bigquery.errors import error_from_result, missing_as_gone
from airflow_provider_connect.clients.bigquery.messages import printable_message
from airflow_provider_connect.clients.bigquery.sql import TableRef
from airflow_provider_connect.errors import ConfigError, ConnectError, DataError, RetriableError
from airflow_provider_connect.patience import FROM_HALF, Patience
from airflow_provider_connect.sinks._bigquery.load_methods.upload import upload_and_load
from airflow_provider_connect.sinks._bigquery.names import legal_job_id

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_connect.sinks._bigquery.columns.types import TargetColumn
    from airflow_provider_connect.sinks._bigquery.options import BigQueryOptions

FILES_PER_JOB = 10_000  # https://cloud.google.com/bigquery/quotas#load_jobs, 2026-11
PACE_SECONDS = 2.5
"""Pause between two load jobs into one table, if a day has more files than a job takes."""
TRIES = 4
_PAUSES = (1.0, 3.0, 9.0)
_UNCHANGED_TYPES = (
    "BOOLEAN",
    "INTEGER",
    "FLOAT",
    "STRING",
    "BYTES",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "DATETIME",
    "NUMERIC",
)


def run_load_jobs(
    api: BigQueryApi,
    table: TableRef,
    files: Sequence[str],
    schema: list[dict[str, Any]],
    *,
    labels: dict[str, str],
    attempt: str,
) -> list[str]:
    """Append Parquet files to an existing table. May be repeated. Returns the job ids.

    :param attempt: part of the job ids, ``connect_load_<attempt>_<n>``.
    :raises DataError: a file or one of its rows does not fit the table.
    """
    gcs_files = [path for path in files if path.startswith("gs://")]
    other_files = [path for path in files if not path.startswith("gs://")]
    sources = [gcs_files[start : start + FILES_PER_JOB] for start in range(0, len(gcs_files), FILES_PER_JOB)]
    sources += [other_files] if other_files else []
    loads = [
        _Load(api, table, source, schema, labels, legal_job_id(f"connect_load_{attempt}_{number}"))
        for number, source in enumerate(sources)
    ]
    for number, file_load in enumerate(loads):
        if number:
            time.sleep(PACE_SECONDS)
        file_load.start()
    return [file_load.finish() for file_load in loads]


@dataclass
class _Load:
    api: BigQueryApi
    table: TableRef
    source: list[str]
    schema: list[dict[str, Any]]
    labels: dict[str, str]
    name: str
    patience: Patience = field(init=False)
    job: Any = None

    def __post_init__(self) -> None:
        self.patience = Patience(self.api.retry_budget_seconds, _PAUSES, jitter=FROM_HALF, tries=TRIES)

    @property
    def action(self) -> str:
        return f"loading {len(self.source)} files into {self.table.id}"

    def start(self) -> None:
        again = self.patience.tries - 1
        name = f"{self.name}_{again}" if again else self.name
        with missing_as_gone(self.action):
            if self.source[0].startswith("gs://"):
                self.job = self.api.start_job(
                    name, self._job_inserter(name), self.action, retry_missing_seconds=SETTLE_SECONDS
                )
            else:
                self.job = upload_and_load(self.api, self.source, self._job_resource(name), self.action)

    def finish(self) -> str:
        while (error := self._wait_for_error()) is not None:
            if not is_retried_in_task(error) or not self.patience.wait_and_retry():
                raise error
            self.start()
        return str(self.job.job_id)

    def _wait_for_error(self) -> ConnectError | None:
        # A job of this id may be an old one, with an old error (a quota) or for another table.
        try:
            with missing_as_gone(self.action):
                job = self.api.wait_for_job(self.job, self.action)
        except ConnectError as error:
            result = self.job.error_result or {}
            if result.get("reason") in ("invalid", "invalidQuery") and not isinstance(error, RetriableError):
                return self._rows_error(self.job.errors or [result])
            return error
        destination = job.destination
        if (destination.project, destination.dataset_id, destination.table_id) != (
            self.table.project,
            self.table.dataset,
            self.table.table,
        ):
            return RetriableError(f"{self.action}: job {job.job_id} has loaded another table")
        row_errors = [error for error in job.errors or [] if error.get("reason") != "stopped"]
        if row_errors or int(_bad_record_count(job) or 0):
            return self._rows_error(row_errors)
        return None

    def _rows_error(self, errors: list[dict[str, Any]]) -> ConnectError:
        first = errors[0] if errors else {}
        location = f" in {first['location']}" if first.get("location") else ""
        text = printable_message(str(first.get("message", "")))
        if errors and not isinstance(error_from_result(first, self.action), (ConfigError, DataError)):
            return error_from_result(first, self.action)
        return DataError(
            f"{self.action}: job {self.job.job_id} did not load every row "
            f"({_bad_record_count(self.job) or len(errors)} bad records{location}){text and ': '}{text}. The data "
            "does not fit the table's columns"
        )

    def _job_config(self) -> Any:
        from google.cloud import bigquery

        config = bigquery.LoadJobConfig(
            source_format="PARQUET",
            write_disposition="WRITE_APPEND",
            create_disposition="CREATE_NEVER",
            schema=[bigquery.SchemaField.from_api_repr(field) for field in self.schema],
            labels={**self.api.labels, **self.labels},
            max_bad_records=0,
        )
        config.parquet_options = bigquery.ParquetOptions.from_api_repr({"enableListInference": True})
        return config

    def _job_inserter(self, name: str) -> Callable[..., Any]:
        config = self._job_config()
        return lambda **how: self.api.client.load_table_from_uri(
            self.source, self.table.id, job_id=name, job_config=config, location=self.api.location, **how
        )

    def _job_resource(self, name: str) -> dict[str, Any]:
        configuration = self._job_config().to_api_repr()
        destination = {"projectId": self.table.project, "datasetId": self.table.dataset, "tableId": self.table.table}
        reference = {"projectId": self.api.project, "jobId": name, "location": self.api.location}
        return {
            "jobReference": {key: value for key, value in reference.items() if value},
            "configuration": {**configuration, "load": {**configuration["load"], "destinationTable": destination}},
        }


def _bad_record_count(job: Any) -> Any:
    # The library has no property for this count.
    return job._properties.get("statistics", {}).get("load", {}).get("badRecords")


def choose_load_method(
    options: BigQueryOptions, stage: str, schema: pa.Schema, columns: Sequence[TargetColumn]
) -> Literal["storage_write", "load_job"]:
    """Choose the load method for a source's rows.

    :raises ConfigError: ``load_method="load_job"``, and no job can load these rows.
    """
    if options.load_method == "storage_write" or (options.load_method == "auto" and not stage.startswith("gs://")):
        return "storage_write"
    if options.tables is not None:
        return "storage_write"  # each row needs the name of its table, which files do not hold
    problems = load_job_problems(schema, columns)
    if options.write_mode == "merge":
        problems.append("write_mode='merge' needs each row's position in the day, which a file does not hold")
    if options.errors_tolerance == "all":
        problems.append("errors_tolerance='all' checks every row, but a load job takes files unchecked")
    if not problems:
        return "load_job"
    if options.load_method == "auto":
        return "storage_write"
    raise ConfigError(
        f"load_method='load_job' cannot be used here: {'; '.join(problems)}. Use load_method='storage_write'"
    )


def load_job_problems(schema: pa.Schema, columns: Sequence[TargetColumn]) -> list[str]:
    """Return the columns that a load job cannot take unchanged from Parquet, with reasons."""
    from pyarrow import types

    problems = []
    for column in columns:
        if column.staging["name"] != column.source:
            problems.append(f"column {column.source!r} has another name in the staging table")
        elif column.staging["mode"] == "REPEATED" or column.staging["type"] not in _UNCHANGED_TYPES:
            problems.append(f"column {column.source!r} is nested or wider than NUMERIC")
        elif column.json == "unchecked" or (
            column.target["mode"] == "REQUIRED" and schema.field(column.source).nullable
        ):
            problems.append(f"column {column.source!r} must be checked row by row (JSON or REQUIRED)")
        elif not _same_in_parquet(schema.field(column.source).type, types):
            problems.append(
                f"column {column.source!r} is {schema.field(column.source).type}, which Parquet stores differently"
            )
    return problems


def _same_in_parquet(kind: pa.DataType, types: Any) -> bool:
    if types.is_timestamp(kind) or types.is_time(kind):
        return bool(kind.unit in ("ms", "us"))
    return not (types.is_uint64(kind) or types.is_null(kind) or types.is_float16(kind))
