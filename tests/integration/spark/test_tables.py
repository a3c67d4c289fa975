"""A table for each event under a real spark-submit: the rows of every event in its own table, also after a kill."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from tests.equipment.waiting import wait_until

pytestmark = pytest.mark.slow

DAYS = [f"2026-10-0{number}" for number in range(5, 10)]


def rows_of(root: Path, day: str) -> dict[str, int]:
    """Return how many rows each event's table has of a day, and that it has no other event's."""
    found = {}
    for log in root.glob("[!_]*/_delta_log"):
        table = DeltaTable(str(log.parent)).to_pyarrow_table(columns=["day", "event"]).to_pylist()
        events = [row["event"] for row in table if str(row["day"]) == day]
        assert len({row["event"] for row in table}) <= 1
        if events:
            found[events[0]] = len(events)
    return found


def served(submit: Any, day: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in submit.standin.project.expected_rows(dt.date.fromisoformat(day)):
        found[row["event"]] = found.get(row["event"], 0) + 1
    return found


def commits_to_the_head(root: Path) -> int:
    return len(list((root / "_connect_head/_delta_log").glob("*.json")))


def drivers(pid: int) -> list[int]:
    """Return the Python drivers that spark-submit has started."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that has just ended
            command = process.cmdline()  # empty while it begins
            if command and "python" in command[0] and any(part.endswith("job.py") for part in command):
                found.append(process.pid)
    return found


def killed_between(submit: Any, day: str, sink: dict[str, Any], root: Path) -> bool:
    """Publish a day, end its driver at its first commit to the head, and return whether another was to come."""
    before = commits_to_the_head(root)
    running = submit.start([day], sink=sink)
    driver = wait_until(lambda: drivers(running.process.pid))[0]
    while commits_to_the_head(root) == before and running.process.poll() is None:
        pass
    with contextlib.suppress(ProcessLookupError):  # on a busy machine it is sometimes faster than we are
        os.kill(driver, signal.SIGKILL)
    running.wait(60)
    return commits_to_the_head(root) == before + 1


def test_a_day_killed_between_its_tables_is_finished_from_its_stage(submit: Any) -> None:
    root = submit.tmp / "lake"
    sink: dict[str, Any] = {"path": f"{root}/{{event}}"}
    ended = submit.here(DAYS[:1], sink=sink)
    assert ended.report.exit_code == 0, ended.output
    assert rows_of(root, DAYS[0]) == served(submit, DAYS[0])
    assert len(rows_of(root, DAYS[0])) > 2

    day = next((day for day in DAYS[1:] if killed_between(submit, day, sink, root)), None)
    assert day is not None, "every kill came after the whole day was published"
    days = DAYS[: DAYS.index(day) + 1]
    polled = json.dumps(submit.standin.stats["requests"])
    again = submit.here([day], sink=sink)
    assert again.report.exit_code == 0, again.output
    assert json.dumps(submit.standin.stats["requests"]) == polled, "it was published from its stage"
    for day in days:
        assert rows_of(root, day) == served(submit, day)
    owner = DeltaTable(str(root / "_connect_head")).metadata().configuration["connect.stream"]
    key = StreamKey(connector="mixpanel", stream=owner.removeprefix("mixpanel/"))
    assert [str(day) for day in DeltaSink(**sink).open(key, {}).ledger.days()] == days
