"""Erasing from the tables of a template: one list in the head keeps people out of all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, OvertakenError, RetriableError
from airflow_provider_connect.sinks._delta.tables import commit as tables_commit
from airflow_provider_connect.sinks._delta.tables.eraser import TablesEraser
from airflow_provider_connect.stage.erase_list import EraseList, no_shaping
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import KEY, MAY, age
from tests.equipment.delta.tables import TablesLab

SECOND = MAY + ONE_DAY


@pytest.fixture
def lab(tmp_path: Path) -> TablesLab:
    lab = TablesLab(tmp_path / "lake").make()
    lab.publish({"signup": ["a", "b"], "click": ["a", "c"]}, "t1")
    lab.publish({"click": ["b"]}, "t2", SECOND)
    return lab


def erased(lab: TablesLab, *values: str) -> dict[Any, int]:
    return dict(lab.publisher.erase("answer", values, "day").rows)


def test_counting_changes_nothing(lab: TablesLab) -> None:
    assert lab.publisher.find("answer", ["a"]) == {MAY: 2}
    assert lab.ledger.erased().version == 0
    assert lab.shown() == {"signup": ["a", "b"], "click": ["a", "c"]}


def test_an_erase_publishes_the_day_without_erased_rows_in_every_table(lab: TablesLab) -> None:
    assert erased(lab, "a") == {MAY: 2}
    assert lab.shown() == {"signup": ["b"], "click": ["c"]}
    assert lab.shown(SECOND) == {"click": ["b"]}
    rows = {row.day: (row.generation, row.rows) for row in lab.ledger.between(MAY, SECOND)}
    assert rows == {MAY: (2, 2), SECOND: (1, 1)}
    assert lab.ledger.newest(MAY, "day").counts["erased"] == 2
    assert set(lab.ledger.days()) == {MAY, SECOND}


def test_the_list_stands_in_the_head_and_keeps_them_out(lab: TablesLab) -> None:
    erased(lab, "a")
    (file,) = (lab.root / "_connect_head" / "_connect" / "erased").iterdir()
    assert EraseList.model_validate_json(file.read_text()).matches(["a", "b"]) == [True, False]
    assert DeltaTable(str(lab.root / "_connect_head")).metadata().configuration["connect.erase_list"] == file.name
    lab.publish({"signup": ["b"], "new": ["d"]}, "t3")
    assert lab.shown() == {"signup": ["b"], "new": ["d"]}, "the next load finds every table that has rows"


def test_a_table_that_a_day_left_empty_is_empty(lab: TablesLab) -> None:
    assert erased(lab, "a", "b") == {MAY: 3, SECOND: 1}
    assert lab.shown() == {"click": ["c"]}
    assert lab.shown(SECOND) == {}
    assert lab.publisher.find("answer", ["a", "b"]) == {}


def test_a_day_polled_before_an_erase_is_not_published_after_it(lab: TablesLab) -> None:
    stale = lab.stage({"click": ["a"]}, "t3", SECOND)
    erased(lab, "a")
    with pytest.raises(OvertakenError, match="rows were erased since this attempt began to poll"):
        lab.commit(stale)
    assert lab.shown(SECOND) == {"click": ["b"]}


@pytest.mark.parametrize("step", ["_publish_into", "_complete"])
def test_a_publish_that_was_reserved_before_the_list_cannot_complete(
    lab: TablesLab, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its tables may have the rows for a while: the erase says that the day is half published."""
    staged, act = lab.stage({"click": ["a", "z"]}, "t3", SECOND), getattr(tables_commit.TablesCommit, step)
    told: list[str] = []

    def late(self: Any, *args: Any) -> Any:
        if self.publish.intent.token == "t3":
            monkeypatch.setattr(tables_commit.TablesCommit, step, act)
            with pytest.raises(RetriableError, match=f"a publish of {SECOND} began before the erase") as error:
                replace(eraser(lab), wait_seconds=0.0).erase(["a"], "day", no_shaping)
            told.append(str(error.value))
        return act(self, *args)

    monkeypatch.setattr(tables_commit.TablesCommit, step, late)
    with pytest.raises(OvertakenError):
        lab.commit(staged)
    assert len(told) == 1
    lab.publish({"click": ["z"]}, "t4", SECOND)
    assert erased(lab, "a") == {}
    assert (lab.shown(), lab.shown(SECOND)) == ({"signup": ["b"], "click": ["c"]}, {"click": ["z"]})


def test_an_erase_that_was_killed_between_two_tables_is_done_by_the_next(
    lab: TablesLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = tables_commit.TablesCommit._publish_into

    def killed(self: Any, name: str, reserved: Any) -> None:
        if name == "signup":
            raise KeyboardInterrupt
        publish(self, name, reserved)

    monkeypatch.setattr(tables_commit.TablesCommit, "_publish_into", killed)
    with pytest.raises(KeyboardInterrupt):
        erased(lab, "a")
    monkeypatch.setattr(tables_commit.TablesCommit, "_publish_into", publish)
    lab.publish({"signup": ["b"], "click": ["c"]}, "t3")
    assert erased(lab, "a") == {}
    assert lab.shown() == {"signup": ["b"], "click": ["c"]}
    age(lab.root)
    lab.publisher.sweep()
    assert not [path for path in lab.root.rglob("erase1-*") if path.is_dir()]


def test_an_unknown_column_is_refused_for_an_erase(lab: TablesLab) -> None:
    with pytest.raises(ConfigError, match="_connect_head has no column 'anser'; did you mean 'answer'"):
        lab.publisher.find("anser", ["a"])


def test_a_table_that_is_gone_stops_it_before_anything_is_changed(lab: TablesLab) -> None:
    (lab.root / "signup").rename(lab.root.parent / "away")
    with pytest.raises(ConfigError, match="signup is gone"):
        erased(lab, "a")
    assert lab.ledger.erased().version == 0


def eraser(lab: TablesLab) -> TablesEraser:
    return TablesEraser(lab.sink, KEY, "answer")
