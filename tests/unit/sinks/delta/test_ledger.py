"""What the ledger in a Delta table's log remembers: after the log's clean-up, beside foreign rows, of every intent."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.transaction import AddAction

from airflow_provider_connect.errors import ConfigError, OvertakenError, RetriableError
from airflow_provider_connect.sinks._delta.log import VERSION_NOTES_FOLDER
from airflow_provider_connect.stage.manifest import data_file
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import KEY, MAY, Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table").make()


def test_a_publisher_opens_its_table_again_only_after_a_commit(lab: Lab) -> None:
    publisher = lab.publisher
    view, ledger = publisher.ledger.view(), publisher.ledger
    assert list(ledger.days()) == []
    assert publisher.ledger.view() is ledger.view() is view
    lab.publish(MAY, ["x"])
    assert [list(ledger.days()), ledger.newest(MAY, "day").rows] == [[MAY], 1]
    assert publisher.ledger.view() is ledger.view() is not view
    DeltaTable(str(lab.root)).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert ledger.view().table.version() == lab.version, "another writer leaves no note of its version"
    DeltaTable(str(lab.root)).create_checkpoint()
    assert list(ledger.days()) == [MAY]
    lab.clean_log()
    assert list(ledger.days()) == [MAY]


def test_a_publisher_that_knows_its_table_notices_a_lost_and_a_replaced_log(lab: Lab) -> None:
    ledger = lab.publisher.ledger
    lab.publish(MAY, ["x"])
    assert list(ledger.days()) == [MAY]
    lab.publish(MAY + dt.timedelta(days=1), ["y"])
    newest = lab.root / "_delta_log" / f"{lab.version:020}.json"
    newest.unlink()
    with pytest.raises(ConfigError, match="was set back"):
        ledger.days()
    shutil.rmtree(lab.root / "_delta_log")
    with pytest.raises(ConfigError, match="is gone"):
        ledger.days()
    shutil.rmtree(lab.root)
    assert list(ledger.days()) == []
    lab.make()
    lab.publish(MAY + dt.timedelta(days=2), ["z"])
    assert list(ledger.days()) == [MAY + dt.timedelta(days=2)]


def test_a_note_that_another_publisher_is_writing_is_neither_read_nor_deleted(lab: Lab) -> None:
    lab.publish(MAY, ["x"])
    (note,) = (lab.root / VERSION_NOTES_FOLDER).iterdir()
    unfinished = note.with_name(f"{note.name}.0f.tmp")
    unfinished.write_text("{}")
    lab.publish(MAY + dt.timedelta(days=1), ["y"])
    assert unfinished.exists()
    assert len(list(lab.ledger.days())) == 2


def test_the_ledger_outlives_the_log(lab: Lab) -> None:
    days = [MAY + dt.timedelta(days=i) for i in range(6)]
    for i, date in enumerate(days):
        lab.publish(date, ["x"] * (i % 3), f"t{i}", clear_number=i)  # the 1st and 4th day are empty
    stale = lab.stage(days[2], ["stale"], "t9")
    lab.publish(days[2], ["y"] * 4, "t7", run="r", clear_number=3)
    lab.publish(days[5], ["last"], "t8")
    lab.clean_log()
    assert list(lab.ledger.days()) == days
    row = lab.ledger.row(days[2])
    assert (row.generation, row.rows, row.token, row.clear_number) == (2, 4, "", 3)
    assert lab.ledger.published(days[2], "t2").generation == 1
    assert lab.publish(days[2], ["again"], "t2").generation == 1, "a known token stays known"
    with pytest.raises(OvertakenError, match="another run has published generation 2") as caught:
        lab.commit(stale)
    assert caught.value.may_poll_again


def test_an_attempt_that_lost_to_a_later_clear_does_not_poll_again_even_after_the_logs_clean_up(lab: Lab) -> None:
    losers = {run: lab.stage(MAY, ["old"], f"{run}-0", run=run, clear_number=1) for run in ("r", "another")}
    made_again = lab.stage(MAY, ["old"], "made-again", run="r", clear_number=7)
    lab.publish(MAY, ["new"], "r-2", run="r", clear_number=2)
    lab.publish(MAY + dt.timedelta(days=1), ["other"], "t9")
    lab.clean_log()
    told = {}
    for name, publish in (losers | {"made again": made_again}).items():
        with pytest.raises(OvertakenError) as caught:
            lab.commit(publish)
        told[name] = caught.value.may_poll_again
    assert told == {"r": False, "another": True, "made again": True}


def test_the_look_before_the_poll_takes_no_request_for_each_commit(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish(MAY, ["a"])
    whole = lab.ledger.row(MAY)
    monkeypatch.setattr(DeltaTable, "history", None)
    seen = lab.ledger.newest(MAY, "day")
    assert (seen.day, seen.generation, seen.rows) == (whole.day, whole.generation, whole.rows)


@pytest.mark.parametrize("call", ["history", "get_add_actions"])
def test_a_store_that_goes_away_between_two_questions_is_named_and_asked_again_later(
    lab: Lab, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish(MAY, ["a"], "t2")

    def away(*_: object, **__: object) -> None:
        raise OSError("Generic S3 error: connection refused")

    monkeypatch.setattr(DeltaTable, call, away)
    with pytest.raises(RetriableError, match=f"{lab.root}: OSError: Generic S3 error"):
        lab.preflight()


def test_the_days_of_ten_years_are_read_quickly(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    days = [MAY + dt.timedelta(days=i) for i in range(1, 3650)]
    adds = [
        AddAction(data_file(Day(date=d), "t", 0, "0"), 1, {"day": str(d)}, 0, True, json.dumps({"numRecords": 1}))
        for d in days
        if d.day != 13
    ]
    table = DeltaTable(str(lab.root))
    table.create_write_transaction(
        adds,
        mode="append",
        schema=table.schema(),
        partition_by=["day"],
        commit_properties=CommitProperties(app_transactions=[Transaction(f"connect/{KEY}/{d}", 1) for d in days]),
    )
    DeltaTable(str(lab.root)).create_checkpoint()
    started = dt.datetime.now(dt.UTC)
    assert list(lab.ledger.days()) == [MAY, *days]
    assert (dt.datetime.now(dt.UTC) - started).total_seconds() < 3


def test_foreign_rows_of_far_days_lead_the_ledger_nowhere(lab: Lab) -> None:
    days = [MAY, MAY + dt.timedelta(days=1), MAY + dt.timedelta(days=4)]
    for i, date in enumerate(days):
        lab.publish(date, ["x"] * (i % 2), f"t{i}")
    beyond = pa.array([None, -5_000_000, 5_000_000], pa.int32()).cast(pa.date32())
    far = pa.array([dt.date.min, dt.date.max, MAY + dt.timedelta(days=3)], pa.date32())
    for column in (beyond, far):
        foreign = pa.table({"event": ["foreign"] * 3, "day": column})
        write_deltalake(str(lab.root), foreign, mode="append", schema_mode="merge")
    assert list(lab.ledger.days()) == days
    assert lab.preflight() == []
    DeltaTable(str(lab.root)).create_checkpoint()
    lab.checkpoint_elsewise("parts")
    (lab.root / "_delta_log" / f"{0:020}.json").unlink()
    assert list(lab.ledger.days()) == days


def test_published_days_at_the_calendars_ends_are_found(lab: Lab) -> None:
    for date in (dt.date.max, dt.date.max - dt.timedelta(days=1)):
        lab.publish(date, ["x"], f"t{date}")
    assert list(lab.ledger.days()) == [dt.date.max - dt.timedelta(days=1), dt.date.max]
    first = Lab(lab.root.parent / "first").make()
    first.publish(dt.date.min, ["x"])
    assert list(first.ledger.days()) == [dt.date.min]
