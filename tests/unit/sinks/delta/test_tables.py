"""A table for each event, under one ledger: what a publish, a retry, a rival and a vanished event leave."""

from __future__ import annotations

import datetime as dt
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, RetriableError
from airflow_provider_connect.sink import Publish, StreamKey
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.tables.commit import Reservation, TablesCommit
from airflow_provider_connect.sinks.delta import DeltaSink
from tests.equipment.delta.lab import MAY, Lab
from tests.equipment.delta.tables import SCHEMA, Steps, TablesLab, steps

__all__ = ["steps"]

OLD = {"login": ["o1", "o2"], "Sign Up": ["o3"]}
NEW = {"login": ["n1"], "buy": ["n2", "n3"]}
LAST = {"buy": ["l1"], None: ["l2"]}
BEFORE_ANY_TABLE, BEFORE_COMPLETION = "table 1", "head 2"


@pytest.fixture
def lab(tmp_path: Path) -> TablesLab:
    return TablesLab(tmp_path / "lake").make()


def reserving(lab: TablesLab, steps: Steps, publish: Publish) -> Callable[[], None]:
    """Return what reserves a day for a publish, and dies."""

    def act() -> None:
        with steps.killed_at(BEFORE_ANY_TABLE):
            lab.commit(publish)
        assert steps.was_killed

    return act


def test_a_template_path_gives_target_uri_and_roots(tmp_path: Path) -> None:
    sink = DeltaSink(path="s3://bucket/lake/mixpanel_{event}/")
    assert (sink.target, sink.asset_uri) == (
        "s3://bucket/lake/mixpanel_{event}",
        "s3://bucket/lake/mixpanel_%7Bevent%7D",
    )
    assert sink.stage_root({}) == "s3://bucket/lake"
    assert sink.tables is not None
    assert (sink.tables.column, sink.tables.folder_name("login")) == ("event", "mixpanel_login")
    assert DeltaSink(path=str(tmp_path)).tables is None
    for path in ("/a/{event}/b", "/a/{event}{day}", "/a/{event", "/a/{}", "/a/_{event}", "/a/x={event}", "/{event}"):
        with pytest.raises(ConfigError, match="path"):
            DeltaSink(path=path)
    with pytest.raises(ConfigError, match="max_tables belongs to"):
        DeltaSink(path=str(tmp_path), max_tables=3)


def test_how_late_a_day_came_is_known(lab: TablesLab) -> None:
    late = {"late_1_days": 5, "late_2_days": 1, "shape_filtered": 7, "rows_polled": 0}
    publish = lab.stage(OLD, "t1")
    polled = publish.manifest.polled.model_copy(update={"counts": late})
    lab.commit(replace(publish, manifest=publish.manifest.model_copy(update={"polled": polled})))
    (row,) = lab.ledger.between(MAY, MAY)
    assert row.counts == late


def test_a_day_lies_in_its_tables_under_one_row(lab: TablesLab) -> None:
    row = lab.publish(OLD)
    assert (row.generation, row.rows) == (1, 3)
    assert lab.ledger.row(MAY) == row
    assert list(lab.ledger.days()) == [MAY]
    assert lab.shown() == lab.expected(OLD)
    login = DeltaTable(str(lab.root / "login"))
    assert login.to_pyarrow_table().select(["event", "day"]).to_pylist() == [{"event": "login", "day": MAY}] * 2
    told = login.history(1)[0]
    assert (told["connect.generation"], told["connect.attempt"], told["connect.reservation"]) == ("1", f"t1-{MAY}", "1")


def test_an_event_that_vanished_leaves_no_rows_and_one_that_appears_has_a_table(lab: TablesLab) -> None:
    lab.publish(OLD)
    other_day = lab.publish(OLD, date=MAY + dt.timedelta(days=1))
    assert lab.publish(NEW, "t2").generation == 2
    assert lab.shown() == lab.expected(NEW)
    assert lab.shown(other_day.day) == lab.expected(OLD)
    assert lab.publish({}, "t3").rows == 0
    assert lab.shown() == {}
    assert len(lab.ledger.days()) == 2


def test_a_reload_commits_to_tables_of_the_day_alone(lab: TablesLab) -> None:
    lab.publish({"other": ["x"]}, date=MAY + dt.timedelta(days=1))
    lab.publish(OLD)
    lab.publish(NEW, "t2")
    lab.publish(NEW, "t3")  # "Sign Up" has had no rows of the day since t2
    versions = {name: DeltaTable(str(lab.root / name)).version() for name in lab.names()}
    assert versions == {"other": 1, "login": 3, lab.tables.folder_name("Sign Up"): 2, "buy": 2}


def test_a_day_that_is_reserved_and_not_complete_is_not_done(
    lab: TablesLab, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    lab.publish(OLD)
    mine = lab.stage(NEW, "t2")
    with steps.killed_at(BEFORE_COMPLETION):
        lab.commit(mine)
    assert lab.shown() == lab.expected(NEW), "all tables have it"
    assert len(lab.ledger.days()) == 0
    assert lab.ledger.published(MAY, "t2") is None
    assert lab.ledger.newest(MAY, "day").generation == 1, "what the next attempt must follow"
    with caplog.at_level(logging.WARNING):
        assert lab.preflight() == []
    assert f"reload of {MAY} was never completed" in caplog.text
    assert lab.commit(mine).generation == 2
    assert list(lab.ledger.days()) == [MAY]
    assert lab.shown() == lab.expected(NEW)


def test_a_retry_goes_on_under_its_reservation(lab: TablesLab, steps: Steps) -> None:
    mine = lab.stage(NEW, "t2")
    with steps.killed_at(BEFORE_COMPLETION):
        lab.commit(mine)
    versions = {name: DeltaTable(str(lab.root / name)).version() for name in lab.names()}
    lab.commit(mine)
    assert {name: DeltaTable(str(lab.root / name)).version() for name in lab.names()} == versions


def test_a_retry_whose_reservation_was_taken_takes_it_back(lab: TablesLab, steps: Steps) -> None:
    lab.publish(OLD)
    mine, other = lab.stage(NEW, "t2"), lab.stage(LAST, "t3")
    with steps.killed_at(BEFORE_COMPLETION):
        lab.commit(mine)
    with steps.killed_at(BEFORE_ANY_TABLE):
        lab.commit(other)
    assert steps.was_killed
    # Its own files are in some tables still, which cannot be removed and added in one commit.
    assert lab.commit(mine).generation == 2
    assert lab.shown() == lab.expected(NEW)
    for log in lab.root.glob("*/_delta_log/*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        added, removed = ({a[what]["path"] for a in actions if what in a} for what in ("add", "remove"))
        assert not added & removed
    with pytest.raises(OvertakenError, match="run-t2/task has published generation 2"):
        lab.commit(other)


def test_an_attempt_that_loses_its_reservation_may_poll_again(lab: TablesLab, steps: Steps) -> None:
    mine, other = lab.stage(NEW, "t2"), lab.stage(LAST, "t3")

    with steps.at("table 2", reserving(lab, steps, other)), pytest.raises(OvertakenError) as caught:
        lab.commit(mine)
    assert (caught.value.by, caught.value.may_poll_again) == ("t3", True)
    assert "run-t3/task has begun to publish the day (reservation 2)" in str(caught.value)
    assert lab.commit(other).generation == 1
    assert lab.shown() == lab.expected(LAST)


def test_an_attempt_overtaken_between_two_tables_writes_to_no_further_table(lab: TablesLab, steps: Steps) -> None:
    mine, other = lab.stage(NEW, "t2"), lab.stage({"buy": ["x"], "login": ["y"]}, "t3")
    with (
        steps.at("table 2", lambda: lab.commit(other)),
        pytest.raises(OvertakenError, match="run-t3/task has published generation 1"),
    ):
        lab.commit(mine)
    assert lab.shown() == {"buy": ["x"], "login": ["y"]}


def test_a_table_of_another_stream_is_found_before_anything_is_reserved(lab: TablesLab) -> None:
    lab.publish(OLD)
    Lab(lab.root / "buy").make()
    with pytest.raises(ConfigError, match=r"buy belongs to no template"):
        lab.publish(NEW, "t2")
    shutil.rmtree(lab.root / "buy")
    DeltaSink(path=f"{lab.root}/buy").open(StreamKey(connector="x", stream="y"), {}).preflight(SCHEMA, (), "day")
    with pytest.raises(ConfigError, match=r"buy belongs to stream x/y"):
        lab.publish(NEW, "t3")
    assert list(lab.ledger.days()) == [MAY]
    assert lab.shown() == lab.expected(OLD)


def test_a_table_of_a_template_is_no_table_by_itself(lab: TablesLab) -> None:
    lab.publish(OLD)
    (problem,) = Lab(lab.root / "login").preflight(SCHEMA)
    assert "belongs to the tables '{event}'" in problem
    (problem,) = TablesLab(lab.root, "x_{event}").preflight()
    assert "_connect_head belongs to the tables '{event}'" in problem


def test_more_tables_than_allowed_fail_before_anything_is_made(tmp_path: Path) -> None:
    lab = TablesLab(tmp_path / "lake", max_tables=2).make()
    with pytest.raises(ConfigError, match=r"3 tables or more are needed.*max_tables=2"):
        lab.publish({"a": ["1"], "b": ["2"], "c": ["3"]})
    assert lab.names() == []
    lab.publish({"a": ["1"], "b": ["2"]}, "t2")
    with pytest.raises(ConfigError, match=r"3 tables or more are needed"):
        lab.publish({"c": ["3"]}, "t3", MAY + dt.timedelta(days=1))
    assert lab.names() == ["a", "b"]


def test_columns_are_added_where_they_come_and_a_changed_type_fails_before_the_poll(lab: TablesLab) -> None:
    lab.publish(OLD)
    wider = SCHEMA.append(pa.field("n", pa.int64()))
    lab.publish({"login": ["x"]}, "t2", schema=wider)
    assert "n" in DeltaTable(str(lab.root / "login")).schema().to_json()
    assert '"n"' not in DeltaTable(str(lab.root / lab.tables.folder_name("Sign Up"))).schema().to_json()
    changed = SCHEMA.append(pa.field("n", pa.string()))
    assert "'n' is long" in lab.preflight(changed)[0]
    with pytest.raises(DataError, match="'n' is long"):
        lab.publish({"login": ["y"]}, "t3", schema=changed)
    frozen = TablesLab(lab.root, schema_contract="freeze")
    frozen.publish({lab_event: ["z"] for lab_event in ("login", "Sign Up")}, "t4", schema=wider)
    assert "'m' is new" in frozen.preflight(SCHEMA.append(pa.field("m", pa.int64())))[0]


def test_local_times_come_into_head_and_tables_later(lab: TablesLab) -> None:
    lab.publish(OLD)
    local = SCHEMA.append(pa.field("local", pa.timestamp("us")))
    lab.publish(OLD, "t2", schema=local)
    assert lab.shown() == lab.expected(OLD)
    assert DeltaTable(str(lab.root / "login")).protocol().writer_features == ["timestampNtz"]


def test_preflight_names_what_cannot_work(lab: TablesLab) -> None:
    (problem,) = lab.preflight(pa.schema([("name", pa.string())]))
    assert "the source has no column 'event'; it has name" in problem
    (problem,) = lab.preflight(kind="snapshot")
    assert "Set snapshot='daily'" in problem
    Lab(lab.root.parent / "table").make()
    (problem,) = TablesLab(lab.root.parent / "table").preflight()
    assert "lies in the Delta table" in problem


def test_a_head_that_was_lost_is_refused(lab: TablesLab) -> None:
    lab.publish(OLD)
    head = lab.root / "_connect_head"
    shutil.move(head, lab.root.parent / "kept")
    assert "_connect_head is gone" in lab.preflight()[0]
    with pytest.raises(ConfigError, match="_connect_head is gone"):
        lab.ledger.days()
    shutil.rmtree(lab.root / "_connect")
    lab.make()
    with pytest.raises(ConfigError, match=r"has reservation 1 of .*, but the last one of .*_connect_head is 1"):
        lab.publish({"login": ["n1"]}, "t2")
    assert lab.shown() == lab.expected(OLD)


def test_a_compaction_during_a_reload_leaves_no_old_rows(lab: TablesLab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.publish(OLD)
    path = str(lab.root / "login")
    table = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, table.slice(1), mode="append")
    commit, waiting = TablesCommit._commit, [True]

    def interrupted(self: TablesCommit, view: LedgerView, name: str, reserved: Reservation) -> bool:
        view.files  # noqa: B018  # is read once
        if name == "login" and waiting:
            waiting.pop()
            DeltaTable(path).optimize.compact()
        return commit(self, view, name, reserved)

    monkeypatch.setattr(TablesCommit, "_commit", interrupted)
    lab.publish(NEW, "t2")
    assert lab.shown() == lab.expected(NEW)


def test_a_table_whose_log_was_lost_is_refused(lab: TablesLab) -> None:
    lab.publish(OLD)
    shutil.rmtree(lab.root / "login" / "_delta_log")
    with pytest.raises(ConfigError, match="login is gone"):
        lab.publish(NEW, "t2")


def test_another_try_of_the_same_intent_that_goes_on_leaves_the_first_to_end(lab: TablesLab, steps: Steps) -> None:
    zombie, retry = lab.stage(OLD, "t1"), lab.stage(NEW, "t1", attempt="t1-second")
    with steps.at("table 2", reserving(lab, steps, retry)), pytest.raises(RetriableError) as caught:
        lab.commit(zombie)
    assert not isinstance(caught.value, OvertakenError)
    assert "another try of dag/run-t1/task has also begun" in str(caught.value)
    lab.commit(retry)
    assert lab.shown() == lab.expected(NEW)
