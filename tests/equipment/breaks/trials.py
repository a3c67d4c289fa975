"""Runs test files in a copy, and says whether they find a break."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.equipment.breaks import witness
from tests.equipment.breaks.breaks import Break
from tests.equipment.breaks.copies import Copy

NARROW_SECONDS = 900.0
WIDE_SECONDS = 3600.0
NOT_CAMPAIGN = "not campaign"
EVERYTHING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("not slow and not campaign", ("unit", "conformance")),
    ("slow and not campaign", ("integration", "conformance")),
    ("slow and not campaign", ("system",)),
)
"""What is run for a break that its own files miss: markers and folders, the quick ones first."""


class UnsoundError(Exception):
    """A break's own files cannot be run without any break."""


@dataclass(frozen=True)
class Ended:
    """One run of pytest.

    :param failures: the tests that failed in setup or call, each with ``is_found`` and ``reason``.
    :param problem: why the run says nothing; "" if it does.
    """

    failures: list[dict[str, Any]]
    passed: int
    cpu_seconds: float
    problem: str = ""

    @property
    def found(self) -> list[dict[str, Any]]:
        """The failures that say something of the product."""
        return [failure for failure in self.failures if failure["is_found"]]


@dataclass(frozen=True)
class Verdict:
    """What became of a break.

    :param found_by: the test that found it; "" if none did.
    :param note: why the run says nothing, or the message of the test's failure.
    :param is_narrow: whether one of its own files found it.
    """

    name: str
    found_by: str
    note: str
    is_narrow: bool
    cpu_seconds: float


@dataclass
class Trials:
    """Tries breaks in one copy.

    :param unsound: tests that fail without any break, by the file or folder that was run: they find nothing.
    """

    copy: Copy
    unsound: dict[str, list[str]] = field(default_factory=dict)

    def verdict(self, fault: Break, *, narrow_only: bool) -> Verdict:
        """Run a break's own files; if they miss it, and unless ``narrow_only``, everything."""
        cpu_seconds, notes = self.require_sound(fault.tests), []
        rounds: list[tuple[str, tuple[str, ...], float]] = [(NOT_CAMPAIGN, fault.tests, NARROW_SECONDS)]
        if not narrow_only:
            rounds += [(*part, WIDE_SECONDS) for part in EVERYTHING]
        for number, (markers, files, limit_seconds) in enumerate(rounds):
            found_by, note, seconds = self._round(fault, markers, files, limit_seconds)
            cpu_seconds += seconds
            if found_by:
                return Verdict(fault.name, found_by, note, number == 0, round(cpu_seconds, 1))
            notes += [note] if note else []
        return Verdict(fault.name, "", "; ".join(notes), is_narrow=False, cpu_seconds=round(cpu_seconds, 1))

    def _round(self, fault: Break, markers: str, files: Sequence[str], limit_seconds: float) -> tuple[str, str, float]:
        """Run files until one fails that passes without the break. Returns the test, a note and CPU seconds."""
        cpu_seconds = 0.0
        left_out = sorted({test for file in files for test in self.unsound.get(file, ())})
        while True:
            with self.copy.broken(fault):
                ended = self.run(files, markers, left_out, limit_seconds)
                cpu_seconds += ended.cpu_seconds
                if ended.failures and not ended.found:  # a later test may say more
                    ended = self.run(files, markers, left_out, limit_seconds, stops=False)
                    cpu_seconds += ended.cpu_seconds
            if ended.problem or not ended.failures:
                return "", ended.problem, cpu_seconds
            if not ended.found or ended.found[0]["test"] in left_out:
                unclear = ended.failures[0]
                return "", f"unclear: {unclear['test']}: {unclear['reason']}", cpu_seconds
            test, reason = ended.found[0]["test"], ended.found[0]["reason"]
            if set(files) <= self.unsound.keys():
                return test, reason, cpu_seconds
            alone = self.run([test.removeprefix("tests/")], markers, (), limit_seconds)
            cpu_seconds += alone.cpu_seconds
            if not alone.problem and not alone.failures:
                return test, reason, cpu_seconds
            left_out = [*left_out, test]

    def require_sound(self, files: Sequence[str]) -> float:
        """Run files without a break, each set once, and note which tests fail. Returns CPU seconds.

        :raises UnsoundError: they cannot be run, or hold no test that passes.
        """
        unknown = [file for file in files if file not in self.unsound]
        if not unknown:
            return 0.0
        ended = self.run(unknown, NOT_CAMPAIGN, (), WIDE_SECONDS, stops=False)
        if ended.problem or not ended.passed:
            raise UnsoundError(f"without a break, {', '.join(unknown)} cannot be run: {ended.problem or 'no test'}")
        for file in unknown:
            failed = [failure["test"] for failure in ended.failures]
            self.unsound[file] = [test for test in failed if test.startswith(f"tests/{file}")]
        return ended.cpu_seconds

    def run(
        self, files: Sequence[str], markers: str, left_out: Sequence[str], limit_seconds: float, *, stops: bool = True
    ) -> Ended:
        """Run pytest over files below ``tests`` in one process.

        :param left_out: tests that are not run.
        :param stops: whether it ends with the first failure.
        """
        options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-p", witness.__name__, "-m", markers]
        options += [*(["-x"] if stops else []), *(f"--deselect={test}" for test in left_out)]
        command = [str(self.copy.python), "-m", "pytest", *options, *(f"tests/{file}" for file in files)]
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "witness.json"
            environ = self.copy.environ | {witness.OUTPUT: str(output)}
            with (Path(folder) / "log").open("w+b") as log:
                started = subprocess.Popen(
                    command, cwd=self.copy.root, env=environ, stdout=log, stderr=log, start_new_session=True
                )
                code, cpu_seconds = _waited(started, limit_seconds)
                log.seek(0)
                last = log.read().decode(errors="replace").strip().splitlines()[-1:]
            if code is None:
                return Ended([], 0, cpu_seconds, f"not over after {limit_seconds:.0f} s")
            if code not in (0, 1) or not output.exists():
                return Ended([], 0, cpu_seconds, f"pytest ended with {code}: {''.join(last)[:160]}")
            witnessed = json.loads(output.read_text(encoding="utf-8"))
        uncollected = ", ".join(witnessed["uncollected"])
        problem = f"not collected: {uncollected}" if uncollected else ""
        return Ended(witnessed["failures"], witnessed["passed"], cpu_seconds, problem)


def _waited(started: subprocess.Popen[bytes], limit_seconds: float) -> tuple[int | None, float]:
    """Return the exit code of a process and the CPU seconds of it and its children; None if it took too long."""
    ends = time.monotonic() + limit_seconds
    is_late = False
    while True:
        pid, status, usage = os.wait4(started.pid, os.WNOHANG)
        if pid:
            started.returncode = os.waitstatus_to_exitcode(status)
            return None if is_late else started.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > ends:
            is_late = True
            os.killpg(started.pid, signal.SIGKILL)
        time.sleep(0.05)
