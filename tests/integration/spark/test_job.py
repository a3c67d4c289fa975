"""The driver under a real spark-submit: window, retry, failure, cut, kill; no Airflow."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from tests.equipment.waiting import wait_until
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

WEEK = [f"2026-10-{day:02d}" for day in range(5, 12)]


def fault(kind, day, **options):
    return Fault.from_json({"kind": kind, "date": day, **options})


def statuses(report):
    return {str(day.day): day.status for day in report.days}


def polls(standin):
    return sum(sum(by_status.values()) for by_status in standin.stats["requests"].values())


def test_a_week_and_an_empty_day_then_a_retry_a_reload_and_the_first_run_again(submit, tmp_path: Path):
    """One session for all days; a retry polls and publishes nothing; a new intent reloads, whoever started first."""
    days, empty = [*WEEK, "2026-10-12"], "2026-10-12"
    submit.standin.faults.replace([fault("empty", empty)])
    events = tmp_path / "events"
    events.mkdir()
    submit.conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    submit.conf |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    ended = submit.run(days)
    assert ended.process.returncode == 0, ended.output
    assert submit.rows() == submit.served(WEEK)
    report = ended.report
    assert {(day.status, day.generation) for day in report.days} == {("published", 1)}
    assert all((day.rows_read, day.rows_written, day.duplicates) == (2050, 2000, 50) for day in report.days[:-1])
    assert report.days[-1].rows_written == 0
    assert {name: report.columns[name] for name in ("event", "time")} == {"event": "STRING", "time": "TIMESTAMP"}
    assert "connect: day 2026-10-05: published as generation 1, 2,000 rows" in ended.output
    assert "(8 of 8 days)" in ended.output
    assert "\tat " not in ended.output, "a stack of Java's in a log of success"
    assert not list(ended.folder.glob("connections.json"))
    assert not list(ended.folder.glob("job.json"))
    assert list(events.iterdir()), "Spark wrote no event log"
    assert_no_secret(submit, ended)

    submit.conf = {}
    polled, version = polls(submit.standin), DeltaTable(str(submit.table)).version()
    again = submit.here(days)
    assert again.report.exit_code == 0, again.output
    assert set(statuses(again.report).values()) == {"already_published"}
    assert polls(submit.standin) == polled
    assert DeltaTable(str(submit.table)).version() == version

    reload = submit.here(WEEK[:1], token="b" * 32)
    assert [day.generation for day in reload.report.days] == [2]
    covered = submit.here(WEEK[:1])
    assert statuses(covered.report) == {WEEK[0]: "already_published"}
    assert covered.report.exit_code == 0
    assert submit.rows() == submit.served(WEEK)
    assert DeltaTable(str(submit.table)).history(1)[0]["connect.token"] == "b" * 32


def assert_no_secret(submit, ended):
    """Fail if a secret is in anything that Spark wrote."""
    secret = submit.standin.account.secret.encode()
    for path in submit.tmp.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
    assert secret.decode() not in ended.output


def test_days_that_are_done_stay_done_when_another_fails(submit):
    bad = fault("bad_line", WEEK[2], times=99)
    submit.standin.faults.replace([bad])
    ended = submit.run(WEEK[:4])
    assert ended.process.returncode == 65, ended.output
    assert statuses(ended.report) == {day: "failed" if day == WEEK[2] else "published" for day in WEEK[:4]}
    assert ended.report.failure.type == "DataError"
    done = [day for day in WEEK[:4] if day != WEEK[2]]
    assert submit.rows() == submit.served(done)
    submit.standin.faults.replace([])
    again = submit.here(WEEK[:4])
    assert statuses(again.report)[WEEK[2]] == "published"
    assert submit.rows() == submit.served(WEEK[:4])


def test_cut_answers_are_polled_again_within_the_budget(submit):
    kinds = ["cut_gzip", "terminated_early", "reset", "short_length", "no_trailer"]
    submit.standin.faults.replace([fault(kind, day) for kind, day in zip(kinds, WEEK, strict=False)])
    ended = submit.here(WEEK[:5], source={"retry_budget_seconds": 60})
    assert ended.report.exit_code == 0, ended.output
    assert submit.rows() == submit.served(WEEK[:5])
    assert [day.retries for day in ended.report.days] == [1] * 5


def test_beyond_the_budget_the_day_fails_as_retriable_and_nothing_is_visible(submit):
    submit.standin.faults.replace([fault("cut_gzip", WEEK[0], times=99)])
    ended = submit.here(WEEK[:1], source={"retry_budget_seconds": 1})
    assert ended.report.exit_code == 75, ended.output
    assert ended.report.failure.type == "RetriableError"
    assert "polled" in ended.report.failure.message
    assert not DeltaTable.is_deltatable(str(submit.table)) or submit.rows() == {}


def test_wrong_credentials_are_one_request_and_no_retry(submit):
    ended = submit.run(WEEK[:1], connection=submit.connection(password="wr0ng-s3cret-canary"))
    assert ended.process.returncode == 78, ended.output
    assert polls(submit.standin) == 1
    assert "wr0ng-s3cret-canary" not in ended.output
    assert "wr0ng-s3cret-canary" not in ended.report.model_dump_json()


def test_whoever_dies_leaves_no_part_of_a_day_and_a_later_try_polls_or_publishes_it(submit):
    """The task, the worker, the driver and the JVM, one try after the other, on the same table and stage."""
    submit.standin.faults.replace([fault("silent", WEEK[0], seconds=60)])
    running = submit.start(WEEK[:1])
    wait_until(lambda: polls(submit.standin) or list(submit.table.glob("_connect/attempts/*/progress-*")))
    family = [running.process.pid, *(child.pid for child in psutil.Process(running.process.pid).children(True))]
    running.abandon()
    running.wait(30)
    wait_until(lambda: not any(psutil.pid_exists(pid) for pid in family), seconds=10)
    assert running.process.returncode != 0

    for victim in ("worker", "driver", "jvm"):
        before = progress(submit)
        submit.standin.faults.replace([fault("slow", WEEK[0], seconds=0.05, size_bytes=4096)])
        running = submit.start(WEEK[:1])
        wait_until(lambda before=before: progress(submit) - before)
        for pid in _find(running.process.pid, victim):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        running.wait(60)
        assert running.process.returncode != 0, victim
        assert not DeltaTable.is_deltatable(str(submit.table)) or submit.rows() == {}, victim
        if victim == "worker":
            assert running.report.failure.type == "RetriableError"

    submit.standin.faults.replace([])
    ended = submit.here(WEEK[:1])
    assert ended.report.exit_code == 0, ended.output
    assert submit.rows() == submit.served(WEEK[:1])

    # As if that try had died between the manifest and the commit: its commit is gone, its stage is whole.
    polled = polls(submit.standin)
    max((submit.table / "_delta_log").glob("*.json")).unlink()
    shutil.rmtree(submit.table / "_connect/log")
    frozen = submit.here(WEEK[:1])
    assert frozen.report.exit_code == 0, frozen.output
    assert polls(submit.standin) == polled
    assert statuses(frozen.report) == {WEEK[0]: "published"}
    assert submit.rows() == submit.served(WEEK[:1])


def progress(submit) -> set[Path]:
    return set(submit.table.glob("_connect/attempts/*/progress-*"))


def _find(jvm: int, victim: str) -> list[int]:
    if victim == "jvm":
        return [jvm]
    named = {"driver": "job.py", "worker": "daemon"}[victim]
    # All workers, and the daemon that forked them: one of them polls, and an idle one would not be missed.
    return [pid for pid, command in _family(jvm) if any(named in part for part in command)]


def _family(jvm: int) -> list[tuple[int, list[str]]]:
    found = []
    for process in psutil.Process(jvm).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # one that has just ended
            found.append((process.pid, process.cmdline()))
    return found
