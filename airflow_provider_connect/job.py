"""The two wire formats between Airflow and Spark: :class:`JobConfig` in, :class:`JobReport` out."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import Failure, worst_failure
from airflow_provider_connect.sink import Intent, OnEmpty
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.manifest import PollResult
from airflow_provider_connect.stage.rejects import RejectsKeep
from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire


class SealedConnections(Wire):
    """Connections for a driver on another machine, in two halves that reveal nothing alone.

    :param url: the sealed half, in the stage. The driver or the task deletes it.
    :param pad: the other half, in hex.
    """

    url: str
    pad: str = Field(repr=False)


class Allowance(Wire):
    """The share of a vendor's quota that a job may use.

    :param until: end of the allowance, in seconds since 1970.
    :param width: most days polled at the same time.
    :param per_second: most requests in a second.
    :param failed: by day, requests spent on failed polls.
    """

    requests: int
    until: float
    width: int = 1
    per_second: int | None = None
    failed: dict[dt.date, int] = Field(default_factory=dict)


class JobConfig(Wire):
    """The configuration of a Spark job, without secrets.

    :param lookback: earlier days to load again, after ``days``.
    :param attempt: unique for every start of a job.
    :param staging: path or URL of the stage, if the sink has none.
    :param allowance: request limit of the job.
    :param concurrent_polls: partitions that the source's options allow to be polled concurrently.
    :param rejects_keep: kept parts of a rejected record.
    :param sealed_connections: connections for a driver on another machine.
    """

    source_name: str
    source: dict[str, Any]
    sink_name: str
    sink: dict[str, Any]
    days: tuple[Day, ...]
    lookback: tuple[Day, ...] = ()
    has_lookback: bool = False
    concurrent_polls: int = 1
    intent: Intent
    attempt: str
    report: str
    staging: str | None = None
    on_empty: OnEmpty = "fail"
    allowance: Allowance | None = None
    count_allowance: Allowance | None = None
    rules: Rules = Field(default_factory=Rules)
    shape: tuple[dict[str, Any], ...] = ()
    rejects_keep: RejectsKeep = "record"
    sealed_connections: SealedConnections | None = None
    transform: Transform | None = None
    definition: StreamDefinition = Field(default_factory=StreamDefinition)
    labels: dict[str, str] = Field(default_factory=dict)
    progress_seconds: float = Field(default=5.0, gt=0)

    @property
    def all_days(self) -> tuple[Day, ...]:
        """All days in processing order, the lookback's last."""
        return (*self.days, *self.lookback)

    @property
    def digests_answers(self) -> bool:
        """True if a lookback will compare the answers, or the report has digests of a transform's rows."""
        return self.has_lookback or bool(self.lookback) or self.transform is not None

    @property
    def is_remote(self) -> bool:
        """True if the driver runs on another machine."""
        return self.sealed_connections is not None


DayStatus = Literal["published", "already_published", "unchanged", "superseded", "overtaken", "failed", "not_started"]
SETTLED: tuple[DayStatus, ...] = ("published", "already_published", "unchanged", "superseded", "overtaken")
"""Statuses of days that need no further try."""


def report_field(default: Any, unit: str, description: str, example: Any) -> Any:
    """Declare a report field, with the texts for docs/report.md."""
    return Field(default, description=description, examples=[example], json_schema_extra={"unit": unit})


_OF_THE_POLL = ("rows_read", "rows_written", "wire_bytes", "raw_bytes", "retries", "earliest", "latest", "digest")
_SUMMED = ("rows_written", "duplicates", "rejected", "retries")


class DayReport(Wire):
    """The outcome of one day."""

    day: dt.date = report_field(..., "date", "The day, in the source's zone.", "2026-10-05")
    status: DayStatus = report_field(
        ...,
        "",
        "`published`; `already_published` by an earlier try of the same run; of a day of the lookback `unchanged` (the "
        "source returned the published answer again) or `overtaken` (another task has published or confirmed the day "
        "since its poll); `superseded` by a later snapshot; `failed`; `not_started`.",
        "published",
    )
    lookback: bool = report_field(
        default=False, unit="", description="Whether it lies before the run's window.", example=False
    )
    generation: int | None = report_field(
        None, "number", "Generation of the day's newest publish, by this job or another. Null without a publish.", 2
    )
    rows_read: int = report_field(0, "rows", "Records in the answer, before duplicates were dropped.", 10050)
    rows_written: int = report_field(0, "rows", "Rows of the day as it is published.", 10000)
    rows_before: int | None = report_field(
        None,
        "rows",
        "Rows of the previous publish, which this one replaced where the sink replaces. Null for a first publish, or "
        "if an earlier try has published the day.",
        9990,
    )
    duplicates: int = report_field(0, "rows", "Records dropped as duplicates: their key had occurred before.", 50)
    rejected: int = report_field(0, "records", "Records rejected by source and sink (`errors_tolerance`).", 0)
    counts: dict[str, int] = report_field(
        {},
        "each its own",
        "Further counts of source and sink, named on their pages. `erased` counts rows that an erase list left out.",
        {"late_1_days": 12},
    )
    wire_bytes: int = report_field(0, "bytes", "Received from the source.", 1048576)
    raw_bytes: int = report_field(0, "bytes", "The same after decoding.", 9437184)
    stage_bytes: int = report_field(0, "bytes", "Of the day's files in the stage.", 2097152)
    retries: int = report_field(
        0, "polls", "Repeated polls of partitions. 0 if an earlier attempt's stage was used.", 1
    )
    poll_seconds: float = report_field(
        0.0, "seconds", "From the first request to the manifest. 0 if an earlier attempt's stage was used.", 41.3
    )
    transform_seconds: float | None = report_field(
        None,
        "seconds",
        "From the polled day to the manifest of its result, in the try that made it. Null without `transform=`.",
        4.2,
    )
    polled_contents: str | None = report_field(
        None,
        "48 hex digits",
        "With `transform=`, digest of all columns of all polled rows in any order. Equal rows have equal digests.",
        "1f0c0a6f3b7d41a28f0e8b5a3c7d41a29d0c6be2f4a1735e",
    )
    result_contents: str | None = report_field(
        None,
        "48 hex digits",
        "The same for the transform's result. If two runs polled equal rows and this differs, the transform is not "
        "deterministic, or another table that it reads has changed.",
        "7be2f4a1735e1f0c0a6f3b7d41a28f0e8b5a3c7d41a29d0c",
    )
    publish_seconds: float = report_field(0.0, "seconds", "From the sink's begin to its commit.", 0.8)
    earliest: dt.datetime | None = report_field(
        None, "time, UTC", "First time of the rows. Null if they have none.", "2026-10-05T00:00:03Z"
    )
    latest: dt.datetime | None = report_field(None, "time, UTC", "Last time of the rows.", "2026-10-05T23:59:58Z")
    digest: str | None = report_field(
        None,
        "32 hex digits",
        "Digest of the keys of all rows in any order. Equal days have equal digests. Null if rows have no key.",
        "8f0e8b5a3c7d41a29d0c6be2f4a1735e",
    )
    rejects: tuple[str, ...] = report_field(
        (), "paths", "Files of rejected records, in the sink's stage.", ["_connect/attempts/…/rejects-00000-….parquet"]
    )
    reference: str | None = report_field(None, "", "The sink's own name for the publish.", "connect_20261006_8f0e8b5a")
    link: str | None = report_field(
        None, "URL", "Page of the publish in the sink's console, if there is one.", "https://…"
    )
    warnings: tuple[str, ...] = report_field(
        (),
        "",
        "Problems of a day that was published.",
        ["day 2026-10-05: …. The day is published, because on_shrink='warn'"],
    )
    failure: Failure | None = report_field(
        None, "", "Reason why it is not published: an error's type and message.", None
    )

    @classmethod
    def for_day(cls, day: Day, status: DayStatus, polled: PollResult | None = None, **fields: Any) -> DayReport:
        """Make the report of a day, with the figures of its poll."""
        if polled is not None:
            counts = dict(polled.counts)
            poll_fields = {name: getattr(polled, name) for name in _OF_THE_POLL}
            fields = {
                **poll_fields,
                "duplicates": counts.pop("duplicates", 0),
                "rejected": counts.pop("rejected", 0),
                "counts": counts,
                "stage_bytes": sum(file.size_bytes for file in polled.files),
                "poll_seconds": polled.seconds,
                "rejects": tuple(file.path for file in polled.rejects),
                **fields,
            }
        return cls(day=day.date, status=status, **fields)


class Totals(Wire):
    """Sums over all days of a report."""

    rows_written: int = report_field(..., "rows", "Of all days.", 10000)
    duplicates: int = report_field(..., "rows", "Of all days.", 50)
    rejected: int = report_field(..., "records", "Of all days.", 0)
    retries: int = report_field(..., "polls", "Of all days.", 1)
    seconds: dict[str, float] = report_field(
        ...,
        "seconds",
        "Of the Spark job by phase: `start` (from the process to its first task), `work` and `total`; with "
        "`transform=`, `sql_session` is the part of `start` that Spark SQL and the check of the transform took.",
        {"start": 3.1, "work": 42.6, "total": 46.2},
    )
    warnings: tuple[str, ...] = report_field(
        (),
        "",
        "Changed options that decide the stream's rows, such as `event` or `where`, with the command that lists the "
        "days loaded with the former options.",
        ['event was ["signup"], and is ["signup", "page view"]. Loaded otherwise: 12 of 40 published days. …'],
    )


TOLD = frozenset(DayReport.model_fields) - {"stage_bytes", "failure"}
"""Fields of a day that go to XCom and asset event."""


class JobReport(Wire):
    """The outcome of a job: a report for each day, and the failure that decides how the task ends.

    :param seconds: see :attr:`Totals.seconds`.
    :param sent: with an allowance: send times of the requests, in seconds since 1970.
    :param lost: most requests of lost Spark tasks.
    :param failed: like :attr:`Allowance.failed`, after this job.
    :param needs: by day, its requests, if too many were needed.
    :param ran_out: by day, the fewest requests that it takes, after a refusal.
    :param counted: send times of the requests for the vendor's counts.
    :param to_count: days to count before they are planned.
    :param alone: days to poll one by one.
    :param columns: Spark types of the source's columns, for lineage. Empty beyond a thousand columns.
    :param staged_columns: Spark types of the published columns, if shapes changed them.
    :param result_columns: Spark types of a transform's result.
    :param warnings: changes of the stream's definition that do not fail the task.
    """

    attempt: str
    days: tuple[DayReport, ...] = ()
    failure: Failure | None = None
    seconds: dict[str, float] = Field(default_factory=dict)
    swept_files: int = 0
    sent: tuple[float, ...] = ()
    lost: int = 0
    failed: dict[dt.date, int] = Field(default_factory=dict)
    needs: dict[dt.date, int] = Field(default_factory=dict)
    ran_out: dict[dt.date, int] = Field(default_factory=dict)
    counted: tuple[float, ...] = ()
    to_count: tuple[dt.date, ...] = ()
    alone: tuple[dt.date, ...] = ()
    count_said: tuple[int, int, float] | None = None
    columns: dict[str, str] = Field(default_factory=dict)
    staged_columns: dict[str, str] = Field(default_factory=dict)
    made_of: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    result_columns: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_days(cls, attempt: str, days: list[DayReport], **fields: Any) -> JobReport:
        """Make the report of a job from its days, with their worst failure."""
        failures = [day.failure for day in days if day.failure and day.status in ("failed", "not_started")]
        return cls(attempt=attempt, days=tuple(days), failure=worst_failure(failures), **fields)

    @property
    def exit_code(self) -> int:
        """The driver's exit code: 0, or the failure's."""
        return self.failure.error().exit_code if self.failure else 0

    def totals(self) -> dict[str, Any]:
        """Return the sums over all days as plain JSON."""
        sums = {name: sum(getattr(day, name) for day in self.days) for name in _SUMMED}
        return Totals(
            **sums,
            seconds={name: round(value, 3) for name, value in self.seconds.items()},
            warnings=self.warnings,
        ).model_dump(mode="json")

    def summary(self) -> dict[str, Any]:
        """Return the short report for XCom and asset event: totals and days as plain JSON."""
        return self.totals() | {"days": [day.model_dump(mode="json", include=set(TOLD)) for day in self.days]}

    def summary_of(self, failure: Failure) -> dict[str, Any]:
        """Return a failed task's short report: the summary with the failures of each day and of the task."""
        included: Any = {"failure": {"type", "message"}, **dict.fromkeys(TOLD, True)}
        days = [day.model_dump(mode="json", include=included) for day in self.days]
        return self.totals() | {"days": days, "failure": failure.model_dump(include={"type", "message"})}
