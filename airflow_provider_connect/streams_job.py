"""The wire formats of a job with many streams: :class:`StreamsJob` in, :class:`StreamsReport` out.

Each stream has its own :class:`.JobConfig` and :class:`.JobReport`, as in a job of one stream.
"""

from __future__ import annotations

import json

from pydantic import Field

from airflow_provider_connect.errors import Failure, worst_failure
from airflow_provider_connect.job import JobConfig, JobReport, SealedConnections
from airflow_provider_connect.wire import Wire


class StreamsJob(Wire):
    """The configuration of a Spark job that moves many streams. It holds no secret.

    :param streams: one job for each stream. Their attempts differ.
    :param parallel_streams: most streams that the job moves at the same time.
    :param attempt: unique for every start of a job.
    :param report: path or URL of the report.
    :param sealed_connections: as :attr:`.JobConfig.sealed_connections`, for all streams.
    """

    streams: tuple[JobConfig, ...]
    parallel_streams: int = Field(ge=1)
    attempt: str
    report: str
    sealed_connections: SealedConnections | None = None

    @property
    def is_remote(self) -> bool:
        """True if the driver runs on another machine, so that its output is not in the task's log."""
        return self.sealed_connections is not None


class StreamsReport(Wire):
    """The outcome of a job with many streams.

    :param streams: reports of the streams, in the order of the job.
    :param seconds: durations of the whole job by phase, as in :attr:`.JobReport.seconds`.
    """

    attempt: str
    streams: tuple[JobReport, ...] = ()
    seconds: dict[str, float] = Field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """The driver's exit code: 0, or the code of the failure that decides how the task ends."""
        failure = deciding_failure([report.failure for report in self.streams if report.failure is not None])
        return failure.error().exit_code if failure is not None else 0


def deciding_failure(failures: list[Failure]) -> Failure | None:
    """Return the failure that decides how a task with several failed streams ends.

    A failure that a retry may repair comes first: the retry leaves published streams alone, and another stream's
    failure must not prevent it.
    """
    repairable = [failure for failure in failures if failure.type not in ("ConfigError", "DataError")]
    return worst_failure(repairable or failures)


def parse_job(text: str) -> JobConfig | StreamsJob:
    """Parse a job file."""
    model = StreamsJob if "streams" in json.loads(text) else JobConfig
    return model.model_validate_json(text)
