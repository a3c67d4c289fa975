"""Why spark-submit failed: what its exit code means, and what to do."""

from __future__ import annotations

import re
import signal

from airflow_provider_connect.errors import ConnectError, RetriableError

_CODES = re.compile(r"\bError code is: (-?\d+)\.(?: Kubernetes spark exit code is: (-?\d+))?")
_OUTPUT = "Last spark-submit output:\n"
_CAUSE = re.compile(r"^(?:Caused by: |Exception in thread \S+ )?(?:\w+\.)*[\w$]*(?:Error|Exception)\b")
_OUT_OF_HEAP = 52  # org.apache.spark.util.SparkExitCode.OOM
_CRASHES = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV, signal.SIGILL, signal.SIGFPE)
_AFTERWARDS = "What is published stays, and the next try goes on from there"


def reason(failure: Exception) -> RetriableError | None:
    """Return the error that says why Spark's driver is gone; None if the failure did not come from spark-submit.

    :param failure: what the Spark provider raised: the command line, the exit code, and the end of the output.
    """
    code = _code(failure)
    if code is None:
        return None
    if (killed := _killed(code, "before its job could report")) is not None:
        return RetriableError(killed)
    return RetriableError(f"spark-submit ended with code {code} before its job could report{_said(str(failure))}.")


def with_reason(reported: ConnectError, failure: Exception | None) -> ConnectError:
    """Return the error that a job reported; if its JVM was killed, say so first, as the job only saw Spark vanish.

    Errors that have nothing to do with that stay as they are: a person must act, a day is bad, or it was published
    meanwhile.
    """
    code = None if failure is None else _code(failure)
    if code is None or type(reported) not in (RetriableError, ConnectError):
        return reported
    if (killed := _killed(code, "while its job was at work")) is None:
        return reported
    retry_after = reported.retry_after_seconds if isinstance(reported, RetriableError) else None
    return RetriableError(f"{killed} Its job said: {reported}", retry_after_seconds=retry_after)


def _code(failure: Exception) -> int | None:
    """Return the exit code from the Spark provider's message; None if it has none."""
    found = _CODES.search(str(failure))
    # On Kubernetes spark-submit itself may succeed, and report the exit code of the driver's pod.
    return None if found is None else int(found[1]) or int(found[2] or 0)


def _killed(code: int, when: str) -> str | None:
    """Say how the JVM was killed; None if it was not. ``when`` becomes part of the sentence."""
    if code == _OUT_OF_HEAP:
        return f"Spark's JVM ran out of its heap {when}: give it more with driver_memory=. {_AFTERWARDS}."
    # A shell reports a signal as its number plus 128.
    number = -code if code < 0 else code - 128
    return f"{_what(number, when)} {_AFTERWARDS}." if number in signal.valid_signals() else None


def _said(text: str) -> str:
    """Return the line of spark-submit's output that names the cause: the first exception, else the last line."""
    lines = [line.strip() for line in text.partition(_OUTPUT)[2].splitlines() if line.strip()]
    if not lines:
        return "; see its output above"
    causes = [line for line in lines if _CAUSE.match(line)]
    return f": {(causes or lines[-1:])[0][:300]}; its output above says more"


def _what(number: int, when: str) -> str:
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL:
        return (
            f"Spark's driver, its JVM or its Python, was killed (SIGKILL) {when}: almost always "
            "because the machine or the container ran out of memory (its events, or 'dmesg', say so). Give the worker "
            "more memory, or let fewer tasks run at once (a pool, max_active_runs)."
        )
    if number in _CRASHES:
        return (
            f"Spark's driver crashed ({name}) {when}: its output above, or hs_err_pid*.log in the "
            "task's working folder, says where. A full disk or memory has the same effect."
        )
    return (
        f"Spark's driver was ended from outside ({name}) {when}: somebody, or whoever manages this machine, stopped it."
    )
