"""This commit beside another one: ``make benchmark BASE=<commit>``. Ends with 1 if a figure became worse.

Polls, whole tasks and publishes are measured by turns, so that both commits meet the same machine, stand-in, broker
and emulator. A figure is worse if its median grew by more than a tenth and the ranges of the rounds do not overlap.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from comparing.cases import CASES
from comparing.rounds import Figure, figures, table
from day import DAYS, ROOT, standin

from tests.standins.bigquery_emulator import BigQueryEmulator
from tests.standins.kafka_broker import KafkaBroker

CASE_TIMEOUT_SECONDS = 600
EMULATED_EVENTS = 50_000
"""Events of the day for the BigQuery emulator, whose own time would hide ours."""


class Servers(NamedTuple):
    """Addresses that a case needs."""

    url: str
    small_url: str
    kafka: str
    bigquery: str

    def arguments(self, case: str) -> list[str]:
        """Return the command-line arguments of a case."""
        url = self.small_url if case == "bigquery publish" else self.url
        return [case, "--url", url, "--kafka", self.kafka, "--bigquery", self.bigquery]


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """Check a commit out into a folder of its own. Yield its root."""
    root = folder / "base"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(root), commit], check=True)
    try:
        yield root
    finally:
        subprocess.run([*git, "remove", "--force", str(root)], check=True)


@contextmanager
def servers(cases: list[str], events: int, cache: Path, folder: Path) -> Iterator[Servers]:
    """Start what the cases need."""
    with ExitStack() as stack:
        url = stack.enter_context(standin(events, DAYS[:1], cache / f"{events}"))
        small_url, kafka, bigquery = url, "{}", "{}"
        if "kafka publish" in cases:
            broker = KafkaBroker(folder / "kafka")
            broker.start()
            stack.callback(broker.stop)
            kafka = json.dumps(broker.connection_extra)
        if "bigquery publish" in cases:
            small = min(events, EMULATED_EVENTS)
            small_url = stack.enter_context(standin(small, DAYS[:1], cache / f"{small}"))
            emulator = BigQueryEmulator(log=folder / "emulator.log")
            emulator.start()
            stack.callback(emulator.stop)
            emulator.create_dataset("benchmark")
            bigquery = json.dumps(emulator.connection_extra)
        yield Servers(url, small_url, kafka, bigquery)


def measure(root: Path, arguments: list[str]) -> dict[str, float]:
    """Measure a case once with the package below ``root``.

    :raises SystemExit: the case failed. Shows its output.
    """
    benchmarks = root / "tests" / "benchmarks"
    if not (benchmarks / "comparing").exists():  # a commit before this benchmark
        benchmarks = Path(__file__).parent
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(root), str(benchmarks)))}
    command = [sys.executable, "-m", "comparing.cases", *arguments]
    result = subprocess.run(
        command, cwd=root, env=env, capture_output=True, text=True, check=False, timeout=CASE_TIMEOUT_SECONDS
    )
    if result.returncode:
        sys.exit(f"{root}: {arguments[0]} failed:\n{result.stdout[-2000:]}{result.stderr[-4000:]}")
    return dict(json.loads(result.stdout.splitlines()[-1]))


def compare(base: Path, case: str, arguments: list[str], rounds: int) -> list[Figure]:
    """Measure a case by turns. The first turn of each commit is not counted: it compiles and fills caches."""
    values: dict[Path, list[dict[str, float]]] = {base: [], ROOT: []}
    for number in range(rounds + 1):
        for root in (base, ROOT) if number % 2 else (ROOT, base):
            measured = measure(root, arguments)
            if number:
                values[root].append(measured)
    return figures(case, values[base], values[ROOT])


def main() -> int:
    """Compare all cases and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, metavar="COMMIT", help="commit to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=500_000, help="events of a day")
    parser.add_argument("--case", action="append", choices=CASES, help="measure only this one. Repeatable")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    cases = options.case or list(CASES)
    compared: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with checkout(options.base, folder) as base, servers(cases, options.events, options.cache, folder) as needed:
            for case in cases:
                compared += compare(base, case, needed.arguments(case), options.rounds)
                print(f"measured {case}", flush=True)
    print(f"\n{options.rounds} rounds by turns, median (least to greatest), base {options.base}")
    print(table(compared))
    return 1 if any(figure.is_worse for figure in compared) else 0


if __name__ == "__main__":
    sys.exit(main())
