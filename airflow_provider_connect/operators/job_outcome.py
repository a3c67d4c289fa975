"""Outcome of a Spark job: its report, or the reason why there is none."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from airflow_provider_connect.errors import ConfigError, ConnectError, RetriableError
from airflow_provider_connect.job import SETTLED, DayReport, JobConfig, JobReport
from airflow_provider_connect.sink import Ledger
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.streams_job import StreamsJob, StreamsReport

_COLUMNS = (
    "day",
    "status",
    "rows",
    "duplicates",
    "rejected",
    "MB read",
    "retries",
    "poll s",
    "publish s",
    "generation",
)


def read_report(config: JobConfig) -> JobReport | None:
    """Read the report of an ended job, None if missing."""
    text = _read_and_delete(config.report)
    if text is None:
        return None
    try:
        report = JobReport.model_validate_json(text)
    except ValidationError:
        return None
    return report if report.attempt == config.attempt else None


def read_streams_report(job: StreamsJob) -> StreamsReport | None:
    """Read the report of an ended job of many streams. None if it is missing or belongs to another attempt."""
    text = _read_and_delete(job.report)
    if text is None:
        return None
    try:
        report = StreamsReport.model_validate_json(text)
    except ValidationError:
        return None
    return report if report.attempt == job.attempt and len(report.streams) == len(job.streams) else None


def explain_missing_report(failure: Exception | None, folder: Path) -> Exception:
    """Return the error of a job that left no report.

    :param failure: the error of spark-submit. None if it ended without one.
    :param folder: the run's folder. If it is missing, the operator was killed and has stopped Spark itself.
    """
    if failure is None:
        return RetriableError("spark-submit ended without an error, but its job left no report")
    return (explain_exit(failure) if folder.exists() else None) or failure


def verify_report(report: JobReport, config: JobConfig, ledger: Ledger) -> None:
    """Check that report and ledger have all requested days.

    A superseded day may be missing.

    :raises RetriableError: a day is missing.
    """
    outcomes = {day.day: day for day in report.days}
    unreported = [str(day) for day in config.all_days if not _is_settled(outcomes.get(day.date))]
    if unreported:
        raise RetriableError(
            f"the Spark job ended without an error, but did not report these days as done: {unreported}"
        )
    published_days = [outcome for outcome in report.days if outcome.status != "superseded"]
    not_in_ledger = [str(outcome.day) for outcome in published_days if not _is_in(ledger, outcome)]
    if not_in_ledger:
        raise RetriableError(
            f"the Spark job reported days as published that the sink's ledger does not have: {not_in_ledger}"
        )
    superseded = [outcome.day for outcome in report.days if outcome.status == "superseded"]
    newest = max(ledger.days(), default=None) if superseded else None
    without_later_day = [str(day) for day in superseded if newest is None or newest <= day]
    if without_later_day:
        raise RetriableError(
            f"the Spark job reported days as superseded, and the sink's ledger has no later day: {without_later_day}"
        )


def format_days(report: JobReport) -> str:
    """Format the days of a report as a text table."""
    return _format_table([_COLUMNS, *(_cells(day) for day in report.days)])


def format_streams(reports: Mapping[str, JobReport]) -> str:
    """Format the days of streams as a text table. A stream without days shows its failure's type.

    :param reports: by the streams' names.
    """
    rows: list[tuple[str, ...]] = [("stream", *_COLUMNS)]
    for name, report in reports.items():
        failure = report.failure.type if report.failure is not None else "no day"
        rows += [(name, *_cells(day)) for day in report.days]
        if not report.days:
            rows.append((name, "-", failure, *("-" for _ in _COLUMNS[2:])))
    return _format_table(rows)


def _format_table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(lines)


def _cells(day: DayReport) -> tuple[str, ...]:
    return (
        str(day.day),
        f"{day.status} (lookback)" if day.lookback else day.status,
        f"{day.rows_written:,}",
        f"{day.duplicates:,}",
        f"{day.rejected:,}",
        f"{day.raw_bytes / 1e6:,.1f}",
        str(day.retries),
        f"{day.poll_seconds:.1f}",
        f"{day.publish_seconds:.1f}",
        "-" if day.generation is None else str(day.generation),
    )


def _is_settled(outcome: DayReport | None) -> bool:
    return outcome is not None and outcome.status in SETTLED


def _is_in(ledger: Ledger, outcome: DayReport) -> bool:
    # "day" also for snapshots, for which the ledger may return another day's row. Only the generation counts.
    newest = ledger.newest(outcome.day, "day")
    return newest is not None and newest.generation >= (outcome.generation or 1)


def _read_and_delete(location: str) -> str | None:
    folder_url, _, name = location.rpartition("/")
    folder = Folder(folder_url)
    try:
        text = folder.read(name).decode("utf-8")
    except FileNotFoundError:
        return None
    folder.delete(name)
    return text


_EXIT_CODES = re.compile(r"\bError code is: (-?\d+)\.(?: Kubernetes spark exit code is: (-?\d+))?")
_OUTPUT = "Last spark-submit output:\n"
_CAUSE = re.compile(r"^(?:Caused by: |Exception in thread \S+ )?(?:\w+\.)*[\w$]*(?:Error|Exception)\b")
_VM_REFUSES = re.compile(
    r"Error occurred during initialization of VM\s*\n(?P<reason>.+)"
    r"|^(?P<option>.+)\n\s*Error: Could not create the Java Virtual Machine",
    re.MULTILINE,
)
_OUT_OF_HEAP = 52  # org.apache.spark.util.SparkExitCode.OOM
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV, signal.SIGILL, signal.SIGFPE)
_NEXT_TRY = "Published days stay, and the next try continues after them"


def explain_exit(failure: Exception) -> RetriableError | ConfigError | None:
    """Explain why spark-submit ended without a report, or return None.

    :return: a ConfigError if the JVM refuses its own settings.
    """
    code = _exit_code(failure)
    if code is None:
        return None
    if (killed := _kill_text(code, "before its job could report")) is not None:
        return RetriableError(killed)
    if (refused := _VM_REFUSES.search(str(failure).partition(_OUTPUT)[2])) is not None:
        reason = (refused["reason"] or refused["option"]).strip()[:300]
        return ConfigError(f"Spark's JVM does not start: {reason}. Correct driver_memory= or the Java options in conf=")
    return RetriableError(
        f"spark-submit ended with code {code} before its job could report{_cause_text(str(failure))}."
    )


def add_exit_cause(reported: ConnectError, failure: Exception | None) -> ConnectError:
    """Put a kill of the JVM in front of a retriable error that the job reported."""
    code = None if failure is None else _exit_code(failure)
    if code is None or type(reported) not in (RetriableError, ConnectError):
        return reported
    if (killed := _kill_text(code, "while its job was running")) is None:
        return reported
    retry_after = reported.retry_after_seconds if isinstance(reported, RetriableError) else None
    return RetriableError(f"{killed} Its job reported: {reported}", retry_after_seconds=retry_after)


def _exit_code(failure: Exception) -> int | None:
    match = _EXIT_CODES.search(str(failure))
    # On Kubernetes spark-submit itself may succeed, and report the exit code of the driver's pod.
    return None if match is None else int(match[1]) or int(match[2] or 0)


def _kill_text(code: int, when: str) -> str | None:
    if code == _OUT_OF_HEAP:
        return f"Spark's JVM ran out of its heap {when}. Raise driver_memory=. {_NEXT_TRY}."
    # A shell reports a signal as its number plus 128.
    number = -code if code < 0 else code - 128
    return f"{_signal_text(number, when)} {_NEXT_TRY}." if number in signal.valid_signals() else None


def _cause_text(text: str) -> str:
    lines = [line.strip() for line in text.partition(_OUTPUT)[2].splitlines() if line.strip()]
    if not lines:
        return ". See its output above"
    causes = [line for line in lines if _CAUSE.match(line)]
    return f": {(causes or lines[-1:])[0][:300]} (more in its output above)"


def _signal_text(number: int, when: str) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL:
        return (
            f"Spark's driver (its JVM or its Python) was killed (SIGKILL) {when}, usually because the machine or the "
            "container ran out of memory (check its events, or 'dmesg'). Give the worker more memory, or limit "
            "concurrent tasks (a pool, max_active_runs)."
        )
    if number in _CRASHES:
        return (
            f"Spark's driver crashed ({name}) {when}. Its output above, or hs_err_pid*.log in the "
            "task's working folder, shows the place. Also check for a full disk or memory."
        )
    return f"Spark's driver was stopped from outside ({name}) {when}, by a person or by the management of this machine."
