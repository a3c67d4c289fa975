"""One export of several days under a real spark-submit, into Delta, while another run publishes one of them."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from tests.equipment.waiting import wait_until
from tests.integration.conftest import Submitter
from tests.standins.mixpanel.faults import Fault

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05", "2026-10-06", "2026-10-07"]


def asked(submit: Submitter) -> dict[str, int]:
    return {dates: sum(by_status.values()) for dates, by_status in submit.standin.stats["requests"].items()}


def test_the_day_that_another_run_publishes_meanwhile_is_asked_for_again_alone(submit: Submitter) -> None:
    # Some ten seconds for the whole answer: longer than the other run takes from its start to its commit.
    slow = Fault.from_json({"kind": "slow", "date": DAYS[0], "seconds": 0.05, "size_bytes": 4096})
    submit.standin.faults.replace([slow])
    running = submit.start(DAYS, source={"days_per_request": 3})
    wait_until(lambda: asked(submit))
    other = submit.here(DAYS[1:2], token="b" * 32)
    assert [(day.status, day.generation) for day in other.report.days] == [("published", 1)], other.output

    ended = running.wait()
    assert ended.process.returncode == 0, ended.output
    report = ended.report
    assert [(day.status, day.generation) for day in report.days] == [
        ("published", 1),
        ("published", 2),
        ("published", 1),
    ]
    assert "Polling it again" in ended.output
    assert asked(submit) == {f"{DAYS[0]}..{DAYS[2]}": 1, DAYS[1]: 2}
    assert {(day.rows_read, day.rows_written, day.duplicates) for day in report.days} == {(2050, 2000, 50)}
    assert report.days[1].digest == other.report.days[0].digest
    assert all(day.raw_bytes > 0 for day in report.days)
    found, served = submit.rows(), submit.served(DAYS)
    assert {day: len(rows) for day, rows in found.items()} == {day: len(rows) for day, rows in served.items()}
    assert all(set(found[day]) == set(served[day]) for day in DAYS)

    version = DeltaTable(str(submit.table)).version()
    again = submit.here(DAYS, source={"days_per_request": 3})
    assert {day.status for day in again.report.days} == {"already_published"}
    assert DeltaTable(str(submit.table)).version() == version
    assert sum(asked(submit).values()) == 3
