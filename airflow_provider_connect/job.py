"""The two wire formats between Airflow and Spark: JobConfig goes in, JobReport comes out."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import Field

from airflow_provider_connect.completeness import Rules
from airflow_provider_connect.errors import Failure, worst
from airflow_provider_connect.sink import Intent, OnEmpty
from airflow_provider_connect.stage.manifest import Polled
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
    :param sealed_connections: where a driver on another machine finds the connections; None if they lie beside the job.
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
    sealed_connections: SealedConnections | None = None
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


class DayReport(Wire):
    """What became of one day.

    :param status: of a day of the lookback, ``unchanged`` says that the source gave the published answer once more, and
        ``overtaken`` that somebody else has published or confirmed the day since it was polled.
    :param lookback: whether it lies before the run's window.
    :param generation: of the day's newest publish, by this job or another; None if there is none.
    :param reference: the sink's own name for the publish; ``link`` leads a person to it.
    :param retries: how often partitions were polled again; 0 if an earlier attempt's stage was used.
    :param poll_seconds: from the first request to the manifest; 0 if an earlier attempt's stage was used.
    :param rows_before: rows of the day's publish that this one followed, which it replaced where the sink replaces;
        None if it was the first, or was published by an earlier try.
    :param warnings: what looks wrong with a day that was published all the same.
    """

    day: dt.date
    status: DayStatus
    lookback: bool = False
    generation: int | None = None
    rows_read: int = 0
    rows_written: int = 0
    rows_before: int | None = None
    duplicates: int = 0
    rejected: int = 0
    counts: dict[str, int] = Field(default_factory=dict)
    wire_bytes: int = 0
    raw_bytes: int = 0
    stage_bytes: int = 0
    retries: int = 0
    poll_seconds: float = 0.0
    publish_seconds: float = 0.0
    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None
    digest: str | None = None
    rejects: tuple[str, ...] = ()
    reference: str | None = None
    link: str | None = None
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    @classmethod
    def of(cls, day: Day, status: DayStatus, polled: Polled | None = None, **fields: Any) -> DayReport:
        """Make a report, with the figures of the poll if there was one."""
        if polled is not None:
            others = {k: v for k, v in polled.counts.items() if k not in ("duplicates", "rejected")}
            fields = {
                "rows_read": polled.rows_read,
                "rows_written": polled.rows_written,
                "duplicates": polled.counts.get("duplicates", 0),
                "rejected": polled.counts.get("rejected", 0),
                "counts": others,
                "wire_bytes": polled.wire_bytes,
                "raw_bytes": polled.raw_bytes,
                "stage_bytes": sum(file.size_bytes for file in polled.files),
                "retries": polled.retries,
                "poll_seconds": polled.seconds,
                "earliest": polled.earliest,
                "latest": polled.latest,
                "digest": polled.digest,
                "rejects": tuple(file.path for file in polled.rejects),
            } | fields
        return cls(day=day.date, status=status, **fields)


class JobReport(Wire):
    """What became of a job: a report for each day, and the failure that decides what the task does.

    :param seconds: by phase: ``start`` (from the process to its first task), ``work``, ``total``.
    :param sent: if the job had an allowance: when its requests were sent, in seconds since 1970.
    :param lost: how many more may have been sent: Spark lost the tasks that knew.
    :param failed: like :class:`Allowance`'s, after this job.
    :param needs: by day, how many requests it takes, if it was planned in vain: the job had fewer left.
    :param counted: when the requests of the vendor's counts were sent, in seconds since 1970.
    :param count_said: what the vendor said when it refused one of them; like :class:`.QuotaError`'s.
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
    counted: tuple[float, ...] = ()
    count_said: tuple[int, int, float] | None = None

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
        return {
            "rows_written": sum(day.rows_written for day in self.days),
            "duplicates": sum(day.duplicates for day in self.days),
            "rejected": sum(day.rejected for day in self.days),
            "retries": sum(day.retries for day in self.days),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
        }

    def summary(self) -> dict[str, Any]:
        """Return the small report that goes to XCom and to the asset event: totals and days as plain JSON."""
        return self.totals() | {
            "days": [
                day.model_dump(
                    mode="json",
                    include={
                        "day",
                        "status",
                        "lookback",
                        "generation",
                        "rows_read",
                        "rows_written",
                        "rows_before",
                        "duplicates",
                        "rejected",
                        "counts",
                        "rejects",
                        "retries",
                        "earliest",
                        "latest",
                        "wire_bytes",
                        "raw_bytes",
                        "poll_seconds",
                        "publish_seconds",
                        "digest",
                        "reference",
                        "link",
                        "warnings",
                    },
                )
                for day in self.days
            ],
        }
