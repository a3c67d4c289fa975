"""Lines on stderr while ``airflow connect run`` works, at least one every five seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SILENT_SECONDS = 5.0
"""Longest time without a line."""
_JOB_LINE = "connect: "


class RunLog:
    """Logger of an operator, which repeats its last message if nothing else is printed."""

    def __init__(self) -> None:
        self._began = self._printed_at = time.monotonic()
        self._last_text = "starting"
        self._lock = threading.Lock()

    def info(self, message: str, *values: Any) -> None:
        """Print a message."""
        self._print(message % values if values else message)

    warning = error = exception = info

    def debug(self, message: str, *values: Any) -> None:
        """Print nothing."""

    @contextmanager
    def signs_of_life(self) -> Iterator[None]:
        """Print a line at least every :data:`SILENT_SECONDS` within the block."""
        end = threading.Event()

        def repeat() -> None:
            while not end.wait(SILENT_SECONDS / 10):
                if time.monotonic() - self._printed_at >= SILENT_SECONDS:
                    self._print(f"still {self._last_text}", is_repeated=True)

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _print(self, text: str, *, is_repeated: bool = False) -> None:
        with self._lock:
            self._printed_at = time.monotonic()
            if not is_repeated:
                self._last_text = text.splitlines()[0] if text else ""
            sys.stderr.write(f"[{self._printed_at - self._began:5.1f} s] {text}\n")
            sys.stderr.flush()


class SparkOutput:
    """Logger of Airflow's Spark hook, which prints only the job's lines for people."""

    def __init__(self, log: RunLog) -> None:
        self._log = log

    def info(self, message: str, *values: Any) -> None:
        """Print a line of the job. Drops other lines."""
        _, is_job_line, text = str(message % values if values else message).partition(_JOB_LINE)
        if is_job_line:
            self._log.info("%s", text)

    debug = warning = error = exception = info


def print_run(operator: Any, log: RunLog) -> None:
    """Let an operator and its Spark hook log to the terminal."""
    make_hook = operator._get_hook

    def make_hook_with_log() -> Any:
        hook = make_hook()
        hook._log = SparkOutput(log)
        log.info("Spark is starting")
        return hook

    operator._cached_logger = log  # which its property log returns
    operator._get_hook = make_hook_with_log
