"""The two wire formats between Airflow and Spark: JobConfig goes in, JobReport comes out."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import Failure, worst
from airflow_provider_connect.sink import Intent, OnEmpty
from airflow_provider_connect.stage.definition import StreamDefinition
from airflow_provider_connect.stage.manifest import Polled
from airflow_provider_connect.stage.rejects import RejectsKeep
from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.window import Day
from airflow_provider_connect.wire import Wire


class SealedConnections(Wire):
    """How a driver on another machine gets its connections: neither half alone says anything (:mod:`.submit.sealed`).

    :param url: of the sealed half, in the stage. The driver deletes it once read, else the task does when it ends.
    :param pad: the other half with its key, in hex. It goes with the job file, and a cluster may keep copies of that.
    """

    url: str
    pad: str = Field(repr=False)


class Allowance(Wire):
    """The part of a vendor's quota that a job may use.

    :param requests: how many requests it may send.
    :param until: when it must have sent them, in seconds since 1970.
    :param width: how many of its days may be polled at once.
    :param per_second: how many it may send in a second.
    :param failed: by day, how many requests of earlier jobs of the same try went into polls that failed.
    """

    requests: int
    until: float
    width: int = 1
    per_second: int | None = None
    failed: dict[dt.date, int] = Field(default_factory=dict)


class JobConfig(Wire):
    """All that a Spark job needs to know; holds no secret.

    :param source: the options of the source called ``source_name``, which is also its name in ledger and offset; the
        sink likewise.
    :param lookback: days before them that are loaded again, after them.
    :param attempt: unique for every start of a job, so that no two attempts write the same file name.
    :param staging: path or URL of the stage, if the sink has no place of its own for it; a day's files there are
        deleted once they are published.
    :param report: path or URL the report is written to.
    :param on_empty: what to do with an answer without rows for a day that has rows in the ledger.
    :param allowance: how many requests the job may send; None if the source has no quota.
    :param count_allowance: the same for the vendor's own counts, if they have a quota of their own.
    :param rules: what an answer with rows must pass.
    :param shape: the shapes that rows pass in the poll, as :meth:`.Chain.serialize` returns them.
    :param rejects_keep: what the source's rejects keep of their records.
    :param sealed_connections: where a driver on another machine finds the connections; None if they lie beside the job.
    :param transform: what happens to a frozen day before it is published.
    :param definition: the parts that decide the stream's rows, as options, connection and shapes say.
    """

    source_name: str
    source: dict[str, Any]
    sink_name: str
    sink: dict[str, Any]
    days: tuple[Day, ...]
    lookback: tuple[Day, ...] = ()
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
        """The days in the order in which they are moved: a source that says stop has answered for the newest first."""
        return (*self.days, *self.lookback)

    @property
    def is_remote(self) -> bool:
        """Whether the driver runs on another machine, so that its output is not in the task's log."""
        return self.sealed_connections is not None


DayStatus = Literal["published", "already_published", "unchanged", "superseded", "overtaken", "failed", "not_started"]
SETTLED: tuple[DayStatus, ...] = ("published", "already_published", "unchanged", "superseded", "overtaken")
"""Those that settle a day: its stream has nothing to do for it any more."""


def _told(default: Any, unit: str, description: str, example: Any) -> Any:
    """Declare a field of the report that people read; docs/report.md is made of these."""
    return Field(default, description=description, examples=[example], json_schema_extra={"unit": unit})


_OF_THE_POLL = ("rows_read", "rows_written", "wire_bytes", "raw_bytes", "retries", "earliest", "latest", "digest")
"""Figures of a poll that a day's report has under the same names."""
_SUMMED = ("rows_written", "duplicates", "rejected", "retries")


class DayReport(Wire):
    """What became of one day."""

    day: dt.date = _told(..., "date", "The day, in the source's zone.", "2026-10-05")
    status: DayStatus = _told(
        ...,
        "",
        "`published`; `already_published` by an earlier try of the same run; of a day of the lookback `unchanged` (the "
        "source gave the published answer once more) or `overtaken` (somebody else has published or confirmed the day "
        "since it was polled); `superseded` by a later snapshot; `failed`; `not_started`.",
        "published",
    )
    lookback: bool = _told(
        default=False, unit="", description="Whether it lies before the run's window.", example=False
    )
    generation: int | None = _told(
        None, "number", "Of the day's newest publish, by this job or another; null if there is none.", 2
    )
    rows_read: int = _told(0, "rows", "Records in the answer, before duplicates were dropped.", 10050)
    rows_written: int = _told(0, "rows", "Rows of the day as it is published.", 10000)
    rows_before: int | None = _told(
        None,
        "rows",
        "Of the day's publish that this one followed, which it replaced where the sink replaces; null if it was the "
        "first, or was published by an earlier try.",
        9990,
    )
    duplicates: int = _told(0, "rows", "Records that were dropped, for their key came before.", 50)
    rejected: int = _told(0, "records", "Records that were set aside by source and sink (`errors_tolerance`).", 0)
    counts: dict[str, int] = _told(
        {},
        "each its own",
        "What else source and sink have counted; their pages have the names. `erased` counts rows of those whom an "
        "erase list keeps out.",
        {"late_1_days": 12},
    )
    wire_bytes: int = _told(0, "bytes", "Received from the source.", 1048576)
    raw_bytes: int = _told(0, "bytes", "The same after decoding.", 9437184)
    stage_bytes: int = _told(0, "bytes", "Of the day's files in the stage.", 2097152)
    retries: int = _told(
        0, "polls", "How often partitions were polled again; 0 if an earlier attempt's stage was used.", 1
    )
    poll_seconds: float = _told(
        0.0, "seconds", "From the first request to the manifest; 0 if an earlier attempt's stage was used.", 41.3
    )
    transform_seconds: float | None = _told(
        None,
        "seconds",
        "From the polled day to the manifest of its result, by whichever try made it; null without `transform=`.",
        4.2,
    )
    polled_contents: str | None = _told(
        None,
        "48 hex digits",
        "With `transform=`, of all columns of all polled rows, whatever their order: equal ones say the same.",
        "1f0c0a6f3b7d41a28f0e8b5a3c7d41a29d0c6be2f4a1735e",
    )
    result_contents: str | None = _told(
        None,
        "48 hex digits",
        "The same of the transform's result: where two runs polled the same and this differs, the transform is not "
        "deterministic, or another table that it reads has changed.",
        "7be2f4a1735e1f0c0a6f3b7d41a28f0e8b5a3c7d41a29d0c",
    )
    publish_seconds: float = _told(0.0, "seconds", "From the sink's begin to its commit.", 0.8)
    earliest: dt.datetime | None = _told(
        None, "time, UTC", "Of the rows' times the first; null if they have none.", "2026-10-05T00:00:03Z"
    )
    latest: dt.datetime | None = _told(None, "time, UTC", "Of the rows' times the last.", "2026-10-05T23:59:58Z")
    digest: str | None = _told(
        None,
        "32 hex digits",
        "Of the keys of all rows, whatever their order: equal days have equal ones. Null if rows have no key.",
        "8f0e8b5a3c7d41a29d0c6be2f4a1735e",
    )
    rejects: tuple[str, ...] = _told(
        (), "paths", "Files of records set aside, in the sink's stage.", ["_connect/attempts/…/rejects-00000-….parquet"]
    )
    reference: str | None = _told(None, "", "The sink's own name for the publish.", "connect_20261006_8f0e8b5a")
    link: str | None = _told(None, "URL", "Where a person sees it, if there is such a page.", "https://…")
    warnings: tuple[str, ...] = _told(
        (),
        "",
        "What looks wrong with a day that was published all the same.",
        ["day 2026-10-05: …; it is published all the same, as on_shrink='warn' says"],
    )
    failure: Failure | None = _told(None, "", "Why it is not published: an error's type and message.", None)

    @classmethod
    def of(cls, day: Day, status: DayStatus, polled: Polled | None = None, **fields: Any) -> DayReport:
        """Make a report, with the figures of the poll if there was one."""
        if polled is not None:
            counts = dict(polled.counts)
            same = {name: getattr(polled, name) for name in _OF_THE_POLL}
            fields = {
                **same,
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
    """The sums over all days of a report."""

    rows_written: int = _told(..., "rows", "Of all days.", 10000)
    duplicates: int = _told(..., "rows", "Of all days.", 50)
    rejected: int = _told(..., "records", "Of all days.", 0)
    retries: int = _told(..., "polls", "Of all days.", 1)
    seconds: dict[str, float] = _told(
        ...,
        "seconds",
        "Of the Spark job by phase: `start` (from the process to its first task), `work` and `total`; with "
        "`transform=`, `sql_session` is the part of `start` that Spark SQL and the check of the transform took.",
        {"start": 3.1, "work": 42.6, "total": 46.2},
    )
    warnings: tuple[str, ...] = _told(
        (),
        "",
        "Changed options that decide the stream's rows, such as `event` or `where`, with the command that lists the "
        "days that were loaded otherwise.",
        ['event was ["signup"], and is ["signup", "page view"]. Loaded otherwise: 12 of 40 published days. …'],
    )


TOLD = frozenset(DayReport.model_fields) - {"stage_bytes", "failure"}
"""Fields of a day that go to XCom and to the asset event: a task that returns has no failures."""


class JobReport(Wire):
    """What became of a job: a report for each day, and the failure that decides what the task does.

    :param seconds: by phase: ``start`` (from the process to its first task), ``work``, ``total``; with a transform,
        ``sql_session`` is a part of ``start``.
    :param sent: if the job had an allowance: when its requests were sent, in seconds since 1970.
    :param lost: how many more may have been sent: Spark lost the tasks that knew.
    :param failed: like :class:`Allowance`'s, after this job.
    :param needs: by day, how many requests it takes, if it was planned in vain: the job had fewer left.
    :param ran_out: by day, how many requests it takes at the least, if the vendor refused more half way.
    :param counted: when the requests of the vendor's counts were sent, in seconds since 1970.
    :param to_count: days that have to be counted before they are planned, if the job ended for want of requests.
    :param alone: days of groups that ran into a deadline, so that each is asked for alone, if the job ended for want of
        requests.
    :param count_said: what the vendor said when it refused one of them; like :class:`.QuotaError`'s.
    :param columns: of the source's rows, with their types as Spark names them; for lineage alone, so not of more than a
        thousand.
    :param staged_columns: the same of the rows that are published, where shapes made others of them; ``made_of`` names
        the source's columns behind each of those.
    :param result_columns: the same of a transform's result; None without a transform.
    :param warnings: changes of the stream's definition that are told, and that fail nothing.
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
    def of(cls, attempt: str, days: list[DayReport], **fields: Any) -> JobReport:
        """Gather the days; the worst failure among them is the job's."""
        failures = [day.failure for day in days if day.failure and day.status in ("failed", "not_started")]
        return cls(attempt=attempt, days=tuple(days), failure=worst(failures), **fields)

    @property
    def exit_code(self) -> int:
        """The driver's exit code: 0, or its failure's."""
        return self.failure.error().exit_code if self.failure else 0

    def totals(self) -> dict[str, Any]:
        """Return the sums over all days: plain JSON."""
        sums = {name: sum(getattr(day, name) for day in self.days) for name in _SUMMED}
        return Totals(
            **sums,
            seconds={name: round(value, 3) for name, value in self.seconds.items()},
            warnings=self.warnings,
        ).model_dump(mode="json")

    def summary(self) -> dict[str, Any]:
        """Return the small report that goes to XCom and to the asset event: totals and days as plain JSON."""
        return self.totals() | {"days": [day.model_dump(mode="json", include=set(TOLD)) for day in self.days]}

    def summary_of(self, failure: Failure) -> dict[str, Any]:
        """Return what a task that failed leaves in XCom: the same, and each day's failure beside the task's own."""
        told: Any = {"failure": {"type", "message"}, **dict.fromkeys(TOLD, True)}
        days = [day.model_dump(mode="json", include=told) for day in self.days]
        return self.totals() | {"days": days, "failure": failure.model_dump(include={"type", "message"})}
