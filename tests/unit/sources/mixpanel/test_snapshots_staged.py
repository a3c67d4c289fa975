"""Snapshots on their way into the stage: what a lost session leaves there, and what is never mixed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.patience import SystemClock
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.spark.poll import PollTask, stage_partition
from tests.equipment.mixpanel import DAY, ENGAGE, connection
from tests.standins.mixpanel.engage import Engage
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.people import People
from tests.standins.mixpanel.server import StandIn

OLD, NEW = People(seed=1, users=550), People(seed=2, users=640)


class NoWait(SystemClock):
    """A sleep that takes no time, and lets something happen meanwhile."""

    def __init__(self, meanwhile) -> None:
        self.meanwhile = meanwhile

    def sleep(self, seconds: float) -> None:
        self.meanwhile()


@pytest.fixture
def standin():
    with StandIn(Project(), people=OLD, engage=Engage(page_size=100)) as server:
        yield server


def staged(standin, root: Path, meanwhile=lambda: None, notes=None, **options):
    source, there = MixpanelSource(stream="engage", **options), connection(standin)
    with source.open(there, PollContext()) as poller:
        schema, (part,) = poller.schema(), poller.plan([DAY])
    task = PollTask(
        source_name="mixpanel",
        source=source.serialize(),
        part=part,
        root=str(root),
        attempts=("t-1",),
        progress_seconds=1,
    )
    polled = stage_partition(task, schema, there, retry_notes=notes, clock=NoWait(meanwhile))[DAY.date]
    rows = [row for file in polled.files for row in pq.read_table(root / file.path, partitioning=None).to_pylist()]
    return polled, rows


@pytest.mark.parametrize("kind", ["expired", "other_session"])
@pytest.mark.parametrize("page", [1, 3, 5])
def test_a_lost_session_is_replaced_and_none_of_its_pages_is_staged(standin, tmp_path, kind, page):
    """Meanwhile the profiles have changed: a page of the old session among the new ones would show."""
    standin.faults.replace([Fault(kind, path=ENGAGE, page=page)])
    notes: list[str] = []

    def change() -> None:
        standin.people = NEW

    polled, rows = staged(standin, tmp_path, change, notes)
    assert [json.loads(row["properties"]) for row in rows] == [one["$properties"] for one in NEW.all()]
    assert (polled.rows_read, polled.rows_written, polled.retries) == (640, 640, 1)
    assert "the next try starts at page 0" in notes[0]
    assert standin.stats["requests"]["engage"]["200"] == 2


def test_a_session_that_is_always_lost_ends_the_poll_after_the_retry_budget(standin, tmp_path):
    standin.faults.replace([Fault("expired", path=ENGAGE, page=2, times=None)])
    with pytest.raises(RetriableError, match="with 3 of retry_budget_requests=3") as caught:
        staged(standin, tmp_path, retry_budget_requests=3)
    assert caught.value.request_budget_spent
    assert standin.stats["requests"]["engage"]["200"] == 3


def test_a_typed_snapshot_is_in_the_stage_with_a_digest(standin, tmp_path):
    promote = {"plan": "string", "revenue": "double", "logins": "bigint", "is_admin": "boolean"}
    polled, rows = staged(standin, tmp_path, promote=promote)
    expected = [one["$properties"] for one in OLD.all()]
    assert [[row[name] for name in promote] for row in rows] == [[one[name] for name in promote] for one in expected]
    assert sum(int(row["record_key"], 16) for row in rows) % 2**128 == int(polled.digest or "", 16)
    assert polled.counts.keys() <= {"last_seen_unreadable"}
