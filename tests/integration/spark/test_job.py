"""The driver under a real spark-submit: window, retry, failure, cut, kill; no Airflow."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.demo.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

WEEK = [f"2026-10-{day:02d}" for day in range(5, 12)]


def fault(kind, day, **options):
    return Fault.of({"kind": kind, "date": day, **options})


def statuses(report):
    return {str(day.day): day.status for day in report.days}


def polls(standin):
    return sum(sum(by_status.values()) for by_status in standin.stats["requests"].values())


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
    return found


def test_a_window_of_a_week_is_one_session_and_every_row_arrives(submit):
    ended = submit.run(WEEK)
    assert ended.process.returncode == 0, ended.output
    assert submit.rows() == submit.served(WEEK)
    report = ended.report
    assert {day.generation for day in report.days} == {1}
    assert all((day.rows_read, day.rows_written, day.duplicates) == (2050, 2000, 50) for day in report.days)
    assert "connect: day 2026-10-05: published as generation 1, 2,000 rows" in ended.output
    assert "(7 of 7 days)" in ended.output
    assert "\tat " not in ended.output, "a stack of Java's in a log of success"
    assert not list(ended.folder.glob("connections.json"))
    assert not list(ended.folder.glob("job.json"))


def test_a_retry_publishes_nothing_and_polls_nothing(submit):
    submit.run(WEEK[:2])
    polled, version = polls(submit.standin), DeltaTable(str(submit.table)).version()
    again = submit.run(WEEK[:2])
    assert again.process.returncode == 0, again.output
    assert set(statuses(again.report).values()) == {"already_published"}
    assert polls(submit.standin) == polled
    assert DeltaTable(str(submit.table)).version() == version


def test_a_new_intent_reloads_whoever_started_first(submit):
    day = WEEK[:1]
    submit.run(day)
    second = submit.run(day, token="b" * 32)
    assert [d.generation for d in second.report.days] == [2]
    again = submit.run(day)
    assert statuses(again.report) == {day[0]: "already_published"}
    assert again.process.returncode == 0
    assert submit.rows() == submit.served(day)
    assert DeltaTable(str(submit.table)).history(1)[0]["connect.token"] == "b" * 32


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
    again = submit.run(WEEK[:4])
    assert statuses(again.report)[WEEK[2]] == "published"
    assert submit.rows() == submit.served(WEEK[:4])


def test_cut_answers_are_polled_again_within_the_budget(submit):
    kinds = ["cut_gzip", "terminated_early", "reset", "short_length", "no_trailer"]
    submit.standin.faults.replace([fault(kind, day) for kind, day in zip(kinds, WEEK, strict=False)])
    ended = submit.run(WEEK[:5], source={"retry_budget_seconds": 60})
    assert ended.process.returncode == 0, ended.output
    assert submit.rows() == submit.served(WEEK[:5])
    assert [day.retries for day in ended.report.days] == [1] * 5


def test_beyond_the_budget_the_day_fails_as_retriable_and_nothing_is_visible(submit):
    submit.standin.faults.replace([fault("cut_gzip", WEEK[0], times=99)])
    ended = submit.run(WEEK[:1], source={"retry_budget_seconds": 1})
    assert ended.process.returncode == 75, ended.output
    assert ended.report.failure.type == "RetriableError"
    assert "polled" in ended.report.failure.message
    assert not DeltaTable.is_deltatable(str(submit.table)) or submit.rows() == {}


def test_wrong_credentials_are_one_request_and_no_retry(submit):
    ended = submit.run(WEEK[:1], connection=submit.connection(password="wr0ng-s3cret-canary"))
    assert ended.process.returncode == 78, ended.output
    assert polls(submit.standin) == 1
    assert "wr0ng-s3cret-canary" not in ended.output
    assert "wr0ng-s3cret-canary" not in ended.report.model_dump_json()


def test_an_empty_day_is_a_done_day(submit):
    submit.standin.faults.replace([fault("empty", WEEK[0])])
    ended = submit.run(WEEK[:1])
    assert ended.process.returncode == 0, ended.output
    assert [(d.status, d.rows_written) for d in ended.report.days] == [("published", 0)]
    again = submit.run(WEEK[:1])
    assert set(statuses(again.report).values()) == {"already_published"}


def test_the_driver_leaves_when_the_task_is_gone(submit):
    submit.standin.faults.replace([fault("silent", WEEK[0], seconds=60)])
    running = submit.start(WEEK[:1])
    wait_for(lambda: polls(submit.standin) or list(submit.table.glob("_connect/attempts/*/progress-*")))
    started = time.monotonic()
    family = [running.process.pid, *(child.pid for child in psutil.Process(running.process.pid).children(True))]
    running.abandon()
    running.wait(30)
    assert time.monotonic() - started < 5
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in family), 10)
    assert running.process.returncode != 0
    submit.standin.faults.replace([])
    assert submit.run(WEEK[:1]).process.returncode == 0
    assert submit.rows() == submit.served(WEEK[:1])


@pytest.mark.parametrize("victim", ["worker", "driver", "jvm"])
def test_a_kill_half_way_leaves_no_part_of_a_day(submit, victim):
    submit.standin.faults.replace([fault("slow", WEEK[0], seconds=0.05, size_bytes=4096)])
    running = submit.start(WEEK[:1])
    wait_for(lambda: list(submit.table.glob("_connect/attempts/*/progress-*")))
    for pid in _find(running.process.pid, victim):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    running.wait(60)
    assert running.process.returncode != 0
    assert not DeltaTable.is_deltatable(str(submit.table)) or submit.rows() == {}
    if victim == "worker":
        assert running.report.failure.type == "RetriableError"
    submit.standin.faults.replace([])
    assert submit.run(WEEK[:1]).process.returncode == 0
    assert submit.rows() == submit.served(WEEK[:1])


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


def test_a_frozen_day_is_published_by_the_next_attempt_without_polling(submit):
    first = submit.run(WEEK[:1], env={"CONNECT_TEST_UNUSED": "1"})
    assert first.process.returncode == 0
    assert polls(submit.standin) == 1
    # As if the first attempt had died between the manifest and the commit: its commit is gone, its stage is whole.
    max((submit.table / "_delta_log").glob("*.json")).unlink()
    shutil.rmtree(submit.table / "_connect/log")
    second = submit.run(WEEK[:1])
    assert second.process.returncode == 0, second.output
    assert polls(submit.standin) == 1
    assert statuses(second.report) == {WEEK[0]: "published"}
    assert submit.rows() == submit.served(WEEK[:1])


def test_secrets_are_nowhere_spark_writes(submit, tmp_path: Path):
    events = tmp_path / "events"
    events.mkdir()
    submit.conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    submit.conf |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    ended = submit.run(WEEK[:1])
    assert ended.process.returncode == 0, ended.output
    secret = submit.standin.account.secret.encode()
    assert list(events.iterdir()), "Spark wrote no event log"
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
    assert secret.decode() not in ended.output
