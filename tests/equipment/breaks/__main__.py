"""Puts each listed break into a copy of the tree, and prints which test finds it. Ends with 1 if one is missed."""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.equipment.breaks.breaks import PACKAGE, ROOT, AnchorError, Break, all_breaks
from tests.equipment.breaks.copies import Copy, tree_digest
from tests.equipment.breaks.trials import Trials, UnsoundError, Verdict

BUILD = ROOT / "build" / "breaks"


class Results:
    """The verdicts on one state of the tree, kept in a file, so that a run that was stopped goes on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._kept: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def verdict(self, fault: Break, *, narrow_only: bool) -> Verdict | None:
        """Return what is known of a break as it is listed now; None if it has to be tried."""
        kept = self._kept.get(fault.name)
        if kept is None or kept["break"] != repr(fault):
            return None
        verdict = Verdict(**kept["verdict"])
        return verdict if verdict.found_by or narrow_only or not kept["narrow_only"] else None

    def keep(self, fault: Break, verdict: Verdict, *, narrow_only: bool) -> None:
        """Keep a verdict."""
        with self._lock:
            fields = {"break": repr(fault), "narrow_only": narrow_only, "verdict": dataclasses.asdict(verdict)}
            self._kept[fault.name] = fields
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(self._kept, indent=1), encoding="utf-8")
            partial.replace(self._path)


def main() -> int:
    """Run the command."""
    every = {fault.name: fault for fault in all_breaks()}
    arguments = _arguments()
    if unknown := sorted({*arguments.only} - every.keys()):
        print(f"no break is called {', '.join(unknown)}", file=sys.stderr)
        return 2
    faults = [fault for name, fault in every.items() if not arguments.only or name in arguments.only]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another run of this checkout is at work", file=sys.stderr)
            return 1
        return _try_all(faults, arguments)


def _try_all(faults: list[Break], arguments: argparse.Namespace) -> int:
    results = Results(BUILD / f"{tree_digest()}.json")
    narrow_only: bool = arguments.narrow_only
    known = {
        fault.name: None if arguments.anew else results.verdict(fault, narrow_only=narrow_only) for fault in faults
    }
    for fault in faults:
        if problem := _anchor_problem(fault):
            known[fault.name] = Verdict(fault.name, "", problem, is_narrow=False, cpu_seconds=0.0)
    left = [fault for fault in faults if known[fault.name] is None]
    lanes = threading.local()
    numbers = iter(range(arguments.jobs))

    def prepare() -> None:
        lanes.trials = Trials(Copy(BUILD / f"copy-{next(numbers)}"))

    def attempt(fault: Break) -> None:
        try:
            verdict = lanes.trials.verdict(fault, narrow_only=narrow_only)
        except UnsoundError as error:
            verdict = Verdict(fault.name, "", str(error), is_narrow=False, cpu_seconds=0.0)
        results.keep(fault, verdict, narrow_only=narrow_only)
        known[fault.name] = verdict
        print(_line(fault, verdict), flush=True)

    if left:
        with ThreadPoolExecutor(min(arguments.jobs, len(left)), "break", initializer=prepare) as pool:
            list(pool.map(attempt, left))
    return _told(faults, known)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.equipment.breaks", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="try this one; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree that are tried side by side")
    parser.add_argument("--narrow-only", action="store_true", help="run nothing else for a break that its files miss")
    parser.add_argument("--anew", action="store_true", help="try again what an earlier run has kept")
    return parser.parse_args()


def _anchor_problem(fault: Break) -> str:
    try:
        fault.applied(PACKAGE)
    except AnchorError as error:
        return str(error)
    return ""


def _line(fault: Break, verdict: Verdict) -> str:
    state = "found" if verdict.found_by else "MISSED (as when it was listed)" if fault.unfound else "MISSED"
    elsewhere = "" if verdict.is_narrow or not verdict.found_by else " by another file"
    return f"{state}{elsewhere}  {verdict.cpu_seconds:6.1f} s  {verdict.name}  {verdict.found_by}  {verdict.note}"


def _told(faults: list[Break], known: dict[str, Verdict | None]) -> int:
    verdicts = [verdict for fault in faults if (verdict := known[fault.name]) is not None]
    found = [verdict for verdict in verdicts if verdict.found_by]
    print()
    for fault, verdict in zip(faults, verdicts, strict=True):
        print(_line(fault, verdict))
    print(f"{len(found)} of {len(faults)} found, {sum(verdict.cpu_seconds for verdict in verdicts):.0f} CPU seconds")
    return 0 if len(found) == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
