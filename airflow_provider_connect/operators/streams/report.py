"""The outcome of a task of many streams: short reports, the log's table, and the error that ends the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.errors import ConnectError, Failure
from airflow_provider_connect.job import JobReport
from airflow_provider_connect.operators import job_outcome
from airflow_provider_connect.streams_job import deciding_failure

if TYPE_CHECKING:
    from airflow_provider_connect.operators.lineage import DatasetPair
    from airflow_provider_connect.sink import Sink

_SHOWN_FAILURES = 10
_SUMMED = ("rows_written", "duplicates", "rejected", "retries")


@dataclass(frozen=True)
class StreamOutcome:
    """The outcome of one stream.

    :param title: its name for people, such as ``public.orders``.
    :param sink: its own target. None if it has none.
    :param datasets: its lineage. None if it was not started.
    """

    title: str
    sink: Sink | None
    report: JobReport
    datasets: DatasetPair | None = None

    def summary(self) -> dict[str, Any]:
        """Return the stream's short report, as a task of this stream alone returns it."""
        failure = self.report.failure
        summary = self.report.summary() if failure is None else self.report.summary_of(failure)
        return {"target": None if self.sink is None else self.sink.target, **summary}


@dataclass(frozen=True)
class TaskReport:
    """The outcome of all streams.

    :param gone: streams with published days that the source does not list any more.
    :param seconds: of the Spark job by phase, as in :attr:`.Totals.seconds`.
    """

    outcomes: Sequence[StreamOutcome]
    gone: Sequence[str]
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> list[StreamOutcome]:
        """The failed streams."""
        return [outcome for outcome in self.outcomes if outcome.report.failure is not None]

    @property
    def lineage(self) -> list[tuple[DatasetPair, JobReport]]:
        """Datasets and report of each stream that was started."""
        return [(outcome.datasets, outcome.report) for outcome in self.outcomes if outcome.datasets is not None]

    def summary(self) -> dict[str, Any]:
        """Return the short report for XCom: sums, and the report of each stream."""
        days = [day for outcome in self.outcomes for day in outcome.report.days]
        sums = {name: sum(getattr(day, name) for day in days) for name in _SUMMED}
        streams = {outcome.title: outcome.summary() for outcome in self.outcomes}
        seconds = {name: round(value, 3) for name, value in self.seconds.items()}
        return {
            **sums,
            "seconds": seconds,
            "streams": streams,
            "failed": [o.title for o in self.failed],
            "gone": list(self.gone),
        }

    def summary_of(self, failure: Failure) -> dict[str, Any]:
        """Return a failed task's short report."""
        return self.summary() | {"failure": failure.model_dump(include={"type", "message"})}

    def table(self) -> str:
        """Return the days of all streams as a text table."""
        return job_outcome.format_streams({outcome.title: outcome.report for outcome in self.outcomes})

    def error(self) -> ConnectError | None:
        """Return the error that ends the task and names each failed stream. None if none failed."""
        failed = [(outcome.title, failure) for outcome in self.outcomes if (failure := outcome.report.failure)]
        deciding = deciding_failure([failure for _, failure in failed])
        if deciding is None:
            return None
        reasons = [f"{title}: {failure.message}" for title, failure in failed[:_SHOWN_FAILURES]]
        more = [f"… and {len(failed) - _SHOWN_FAILURES} more"] if len(failed) > _SHOWN_FAILURES else []
        text = "\n".join([f"{len(failed)} of {len(self.outcomes)} streams failed:", *reasons, *more])
        return _with_message(deciding, text)


def _with_message(failure: Failure, message: str) -> ConnectError:
    return failure.model_copy(update={"message": message}).error()
