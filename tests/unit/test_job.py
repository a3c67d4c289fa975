import datetime as dt
import json

import pytest
from pydantic import ValidationError

from airflow_provider_connect.errors import ConfigError, DataError, Failure, RetriableError, SupersededError
from airflow_provider_connect.job import DayReport, JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.stage.manifest import PollResult, StagedFile
from airflow_provider_connect.window import Day

DAY = Day(date=dt.date(2026, 3, 8), zone="US/Pacific")
NOON = dt.datetime(2026, 3, 8, 12, tzinfo=dt.UTC)
POLLED = PollResult(
    files=(StagedFile(path="day=2026-03-08/a.parquet", rows=7, size_bytes=100),),
    rejects=(StagedFile(path="_connect/attempts/a/rejects-00000.parquet", rows=1, size_bytes=9),),
    rows_read=10,
    rows_written=7,
    counts={"duplicates": 2, "rejected": 1, "outside_day": 4},
    wire_bytes=50,
    raw_bytes=500,
    retries=3,
    seconds=1.25,
    earliest=NOON,
    latest=NOON + dt.timedelta(hours=1),
    digest="ab" * 16,
)


def config(**changes):
    fields = {
        "source_name": "mixpanel",
        "source": {"conn_id": "m", "event": ["a b", "ü\n'\"{{ ds }}"]},
        "sink_name": "delta",
        "sink": {"path": "/data/x"},
        "days": (DAY,),
        "intent": Intent(token="a" * 32, run="dag/run/task"),
        "attempt": "aaaa-1",
        "report": "/run/report.json",
        "labels": {"dag_id": "dag"},
    }
    return JobConfig(**fields | changes)


def failed(error, day=DAY):
    return DayReport.for_day(day, "failed", failure=Failure.from_error(error))


def test_a_job_survives_json_and_keeps_every_number():
    job = config()
    assert JobConfig.model_validate_json(job.model_dump_json()) == job


def test_a_job_of_another_version_is_refused():
    plain = json.loads(config().model_dump_json())
    with pytest.raises(ValidationError, match="speed"):
        JobConfig(**plain | {"speed": 1})
    del plain["attempt"]
    with pytest.raises(ValidationError, match="attempt"):
        JobConfig(**plain)


def test_a_day_reports_what_was_polled():
    report = DayReport.for_day(DAY, "published", POLLED, generation=4, publish_seconds=0.5)
    assert (report.rows_read, report.rows_written, report.duplicates, report.rejected) == (10, 7, 2, 1)
    assert report.counts == {"outside_day": 4}
    assert (report.wire_bytes, report.raw_bytes, report.stage_bytes, report.retries) == (50, 500, 100, 3)
    assert (report.earliest, report.latest, report.digest) == (NOON, POLLED.latest, "ab" * 16)
    assert report.rejects == ("_connect/attempts/a/rejects-00000.parquet",)
    assert (report.generation, report.poll_seconds, report.publish_seconds) == (4, 1.25, 0.5)


def test_a_report_survives_json():
    late = failed(RetriableError("later", retry_after_seconds=9))
    days = [DayReport.for_day(DAY, "published", POLLED, generation=1), late]
    report = JobReport.from_days("a-1", days, seconds={"total": 1.5}, swept_files=2)
    assert JobReport.model_validate_json(report.model_dump_json()) == report


@pytest.mark.parametrize(
    ("errors", "worst", "exit_code"),
    [
        ([], None, 0),
        ([DataError("d")], "DataError", 65),
        ([DataError("d"), RetriableError("r")], "RetriableError", 75),
        ([RetriableError("r"), KeyError("k")], "RetriableError", 75),
        ([DataError("d"), KeyError("k")], "ConnectError", 70),
        ([RetriableError("r"), DataError("d"), ConfigError("c")], "ConfigError", 78),
    ],
)
def test_the_worst_day_decides_about_the_job(errors, worst, exit_code):
    report = JobReport.from_days(
        "a", [DayReport.for_day(DAY, "published", POLLED), *(failed(error) for error in errors)]
    )
    assert (report.failure and report.failure.type) == worst
    assert report.exit_code == exit_code
    assert JobReport.from_days("a", list(report.days)[::-1]).exit_code == exit_code


def test_a_superseded_day_is_no_failure_of_the_job():
    day = DayReport.for_day(DAY, "superseded", failure=Failure.from_error(SupersededError("newer")))
    report = JobReport.from_days("a", [day, DayReport.for_day(DAY, "not_started")])
    assert report.failure is None
    assert report.exit_code == 0


def test_the_summary_is_plain_json_and_small():
    days = [DayReport.for_day(DAY, "published", POLLED, generation=2), DayReport.for_day(DAY, "not_started")]
    summary = JobReport.from_days("a", days, seconds={"total": 1.23456}).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert summary["rows_written"] == 7
    assert summary["seconds"] == {"total": 1.235}
    first = summary["days"][0]
    assert (first["day"], first["status"], first["generation"]) == ("2026-03-08", "published", 2)
    assert (first["rows_read"], first["duplicates"], first["rejected"], first["digest"]) == (10, 2, 1, "ab" * 16)
    assert first["counts"] == {name: n for name, n in POLLED.counts.items() if name not in ("duplicates", "rejected")}
    assert (summary["duplicates"], summary["rejected"]) == (2, 1)
