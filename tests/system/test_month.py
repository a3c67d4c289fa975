"""A month of daily runs that look back, while events come late, change and are deleted: each report is the truth."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.equipment.airflow.history import ONE_DAY, Answer, History, difference
from tests.equipment.airflow.tables import OnDelta
from tests.standins.mixpanel.server import StandIn
from tests.system.conftest import CATCHUP_DAYS, System, connection_of

pytestmark = pytest.mark.slow

FIRST = dt.date(2026, 3, 6)  # the clocks of US/Pacific change on the 8th
DAYS = max(CATCHUP_DAYS, 5)
"""In five, every date has an age of which the history says what happens, and the day of 23 hours is looked at again."""
LOOKBACK_DAYS = 3
SIZE = {"events_per_day": 150, "duplicates_per_day": 5, "late_per_day": 2, "shrinks": FIRST + ONE_DAY}
HISTORIES = {
    "month_utc": History(seed=21, **SIZE),
    "month_local": History(seed=22, regime="project_local", timezone="US/Pacific", **SIZE),
}


@pytest.fixture
def standins(system: System) -> Iterator[dict[str, StandIn]]:
    with ExitStack() as stack:
        found = {name: stack.enter_context(StandIn(history)) for name, history in HISTORIES.items()}
        for name, standin in found.items():
            system.airflow.api("POST", "connections", json=connection_of(standin, name))
            system.airflow.wait_for_dag(name)
            system.airflow.api("PATCH", f"dags/{name}?update_mask=is_paused", json={"is_paused": False})
        yield found


@pytest.mark.catchup
def test_every_run_reports_what_changed_since_the_last(system: System, standins: dict[str, StandIn]):
    loaded: dict[str, dict[dt.date, list[Answer]]] = {name: {} for name in standins}
    for date in (FIRST + ONE_DAY * i for i in range(DAYS)):
        for name, standin in standins.items():
            history = HISTORIES[name].at(HISTORIES[name].polled(date))
            standin.project = history
            conf = {"days": str(date), "now": history.now.isoformat()}
            body = {"dag_run_id": str(date), "conf": conf, "logical_date": None}
            system.airflow.api("POST", f"dags/{name}/dagRuns", json=body)
        for name, standin in standins.items():
            system.wait_for_run(str(date), name)
            reports = system.report(str(date), name)["days"]
            looked = [day for i in range(LOOKBACK_DAYS, 0, -1) if (day := date - ONE_DAY * i) >= FIRST]
            assert [report["day"] for report in reports] == [str(date), *map(str, looked)]
            for report in reports:
                check(report, standin.project, loaded[name].setdefault(dt.date.fromisoformat(report["day"]), []))
    for name, answers in loaded.items():
        in_table = OnDelta(f"{system.folder}/tables/{name}")
        rows, truth = in_table.rows(), {str(date): Counter(texts(seen[-1])) for date, seen in answers.items()}
        assert rows.keys() == truth.keys()
        assert [date for date in truth if rows[date] != truth[date]] == []
        generations = {date: row.generation for date, row in in_table.ledger().items()}
        assert generations == {str(date): len(seen) for date, seen in answers.items()}


def check(report: dict[str, Any], history: Any, loaded: list[Answer]) -> None:
    """Compare the report of a day with what its history says; note the answer if it is a new one."""
    answer = history.answer(dt.date.fromisoformat(report["day"]))
    earlier = loaded[-1] if loaded else None
    what = (str(history.regime), report)
    if earlier == answer:
        assert report["status"] == "unchanged", what
        return
    loaded.append(answer)
    assert report["status"] == "published", what
    assert report["rows_written"] == len(answer.rows), what
    assert report["duplicates"] == answer.duplicates, what
    assert report["generation"] == len(loaded), what
    if earlier is not None:
        added, changed, vanished = difference(earlier, answer)
        assert report["rows_before"] == len(earlier.rows), what
        counts = {name: report["counts"].get(name, 0) for name in ("added", "changed", "vanished")}
        assert counts == {"added": added, "changed": changed, "vanished": vanished}, what
        has_shrunk = (len(earlier.rows) - len(answer.rows)) * 2 > len(earlier.rows)
        assert bool(report["warnings"]) == has_shrunk, what


def texts(answer: Answer) -> list[str]:
    return [json.dumps([row["event"], row["properties"]], sort_keys=True) for row in answer.rows.values()]
