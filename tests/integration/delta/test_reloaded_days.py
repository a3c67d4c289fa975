"""Days that are loaded again by a real Spark into Delta: the report's figures are the stand-in's own."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.window import ONE_DAY, Day, zone
from tests.integration.conftest import Submitter
from tests.standins.mixpanel.events import Project, TimeUnit
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

ZONE = "US/Pacific"
SOURCE = {"zone": ZONE, "timestamps": "project_local"}


@dataclass(frozen=True)
class Later(Project):
    """A project at a later time: some events are deleted, and some have one more property."""

    def lines(self, date: dt.date, unit: TimeUnit = "s") -> Iterator[bytes]:
        for line in super().lines(date, unit):
            ending = json.loads(line)["properties"].get("$insert_id", "")[-2:]
            if ending.startswith("a"):
                continue
            yield line.replace(b'"properties":{', b'"properties":{"mended":1,') if ending.startswith("b") else line


def events(project: Project, date: dt.date) -> dict[str, dict[str, Any]]:
    """Return a day's distinct events by what makes them distinct."""
    names = ("distinct_id", "time", "$insert_id")
    found = {}
    for event in project.expected_rows(date):
        key = [event["event"], *(event["properties"].get(name) for name in names)]
        found[json.dumps(event if None in key else key, sort_keys=True)] = event
    return found


def late(project: Project, date: dt.date, since: dt.datetime) -> int:
    received = (event["properties"]["mp_processing_time_ms"] for event in project.expected_rows(date))
    return sum(at >= since.timestamp() * 1000 for at in received)


def test_late_changed_and_vanished_rows_are_as_many_as_the_stand_in_has(tmp_path: Path) -> None:
    today = dt.datetime.now(zone(ZONE)).date()
    changed, same = today - 2 * ONE_DAY, today - 3 * ONE_DAY
    first = Project(
        seed=5, regime="project_local", timezone=ZONE, events_per_day=2000, duplicates_per_day=50, missing_ids_per_day=5
    )
    # Three of four late events of two days ago have a time of receipt that is yet to come.
    later = Later(**(vars(replace(first, late_per_day=200))))
    days = [str(same), str(changed)]
    with StandIn(first) as standin:
        submit = Submitter(tmp_path, standin)
        loaded = submit.here(days, source=SOURCE)
        assert loaded.report.exit_code == 0, loaded.output
        key = StreamKey(connector="mixpanel", stream="mixpanel_default.export")
        ledger = DeltaSink(path=str(submit.table)).open(key, {}).ledger
        polled = {row.day: row.polled_at for row in ledger.between(same, changed)}
        for day in loaded.report.days:
            assert not {"added", "changed", "vanished", "late"} & set(day.counts)

        standin.project = later
        again = submit.run([str(changed)], source=SOURCE, token="b" * 32)
        assert again.process.returncode == 0, again.output
        standin.project = first
        unmoved = submit.here([str(same)], source=SOURCE, token="b" * 32)

    (report,) = again.report.days
    old, new = events(first, changed), events(later, changed)
    expected = {
        "added": len(new.keys() - old.keys()),
        "changed": sum(new[key] != old[key] for key in new.keys() & old.keys()),
        "vanished": len(old.keys() - new.keys()),
        "late": late(later, changed, polled[changed]),
        "late_1_days": late(later, changed, Day(date=changed + ONE_DAY, zone=ZONE).end),
    }
    assert {name: report.counts[name] for name in expected} == expected
    assert all(count > 20 for name, count in expected.items() if name != "late_1_days")
    assert report.rows_written == report.rows_before + expected["added"] - expected["vanished"]
    assert ledger.row(changed).counts.items() >= expected.items()
    (row,) = ledger.between(changed, changed)
    assert row.counts["late_1_days"] == expected["late_1_days"]

    (report,) = unmoved.report.days
    assert [report.counts.get(name, 0) for name in ("added", "changed", "vanished", "late")] == [0, 0, 0, 0]
