"""A large day in several exports under a real spark-submit: killed between its parts, and done by the next try."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from tests.equipment.waiting import wait_until
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

DAY = "2026-10-05"
SPLIT = {"split_rows": 500}


def exports(submit) -> int:
    return sum(submit.standin.stats["requests"].get(DAY, {}).values())


def staged(submit) -> set[Path]:
    """Return the files of parts that are written to their end."""
    return set(submit.table.glob("**/*.parquet"))


def test_a_kill_between_parts_publishes_nothing_and_the_next_try_has_the_whole_day(submit):
    # The first part answers at once, the others hardly ever.
    slow = Fault("slow", seconds=0.2, size_bytes=512, times=None)
    submit.standin.faults.replace([Fault("none"), slow])
    running = submit.start([DAY], source=SPLIT)
    wait_until(lambda: staged(submit) and exports(submit) >= 2)
    first_parts = staged(submit)
    family = psutil.Process(running.process.pid).children(recursive=True)
    for process in [*family, running.process]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    running.wait(60)
    assert not DeltaTable.is_deltatable(str(submit.table)) or submit.rows() == {}

    submit.standin.faults.replace([])
    before = exports(submit)
    ended = submit.here([DAY], source=SPLIT)
    assert ended.report.exit_code == 0, ended.output
    (day,) = ended.report.days
    assert (day.status, day.rows_written, day.duplicates) == ("published", 2000, 50)
    assert exports(submit) - before >= 4, "every part is asked for again"
    assert len(submit.rows()[DAY]) == 2000
    assert submit.rows().keys() == {DAY}
    assert hash(tuple(submit.rows()[DAY])) == hash(tuple(submit.served([DAY])[DAY]))
    published = set(DeltaTable(str(submit.table)).file_uris())
    assert not any(str(path) in uri for path in first_parts for uri in published)


def test_a_day_that_ran_into_its_deadline_comes_in_several_exports_at_the_next_try(submit):
    submit.standin.faults.replace([Fault("silent", seconds=60)])
    late = {"request_deadline_seconds": 4.0, "retry_budget_seconds": 0.0}
    ended = submit.here([DAY], source=late)
    assert (ended.report.exit_code, ended.report.failure.type) == (75, "DeadlineError"), ended.output
    assert exports(submit) == 1

    ended = submit.run([DAY], source=late)
    assert ended.process.returncode == 0, ended.output
    (day,) = ended.report.days
    assert (day.status, day.rows_written, day.duplicates) == ("published", 2000, 50)
    assert exports(submit) == 3
    assert hash(tuple(submit.rows()[DAY])) == hash(tuple(submit.served([DAY])[DAY]))
