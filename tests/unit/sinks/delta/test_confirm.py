"""Confirmed days of a Delta table: in its log alone, for as long as the table lives."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConnectError, OvertakenError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta import app_transactions, commit
from airflow_provider_connect.sinks._delta.commit import Confirmation
from tests.equipment.delta.lab import MAY, Lab, age, rows_of

ANSWER = "f" * 31 + "0"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a table with one published day."""
    made = Lab(tmp_path / "table").make()
    made.publish(MAY, ["a", "b"], "t1", answer=ANSWER)
    return made


def again(lab: Lab, token: str, **more: Any) -> Publish:
    return lab.stage(MAY, ["a", "b"], token, answer=ANSWER, **more)


def confirms(lab: Lab, staged: Publish) -> LedgerRow:
    return lab.publisher.confirm(staged)


def test_a_confirmation_adds_and_removes_no_file(lab: Lab) -> None:
    before = DeltaTable(str(lab.root)).file_uris()
    confirms(lab, again(lab, "t2"))
    assert DeltaTable(str(lab.root)).file_uris() == before
    (commit, *_) = DeltaTable(str(lab.root)).history(1)
    assert commit["connect.checks"] == "1"
    assert commit["connect.label.dag"] == "dag"
    actions = (lab.root / "_delta_log" / f"{lab.version:020}.json").read_text().splitlines()
    assert {next(iter(json.loads(action))) for action in actions} == {"txn", "commitInfo"}


def test_a_confirmation_deletes_its_staged_files(lab: Lab) -> None:
    staged = again(lab, "t2")
    confirms(lab, staged)
    assert not lab.there(staged)
    assert not (lab.root / "_connect" / "attempts" / staged.manifest.attempt).exists()
    assert rows_of(lab.root) == ["a", "b"]


def test_a_sweep_deletes_what_a_killed_driver_left(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = again(lab, "t2")
    with monkeypatch.context() as killed:
        killed.setattr(commit, "delete_confirmed_attempt", lambda *_: None)
        confirms(lab, staged)
    assert lab.there(staged)
    version = lab.version
    age(lab.root)
    assert lab.sweep() > 0
    assert not lab.there(staged)
    assert lab.version == version, "the confirmation itself has recorded the attempt as swept"
    assert rows_of(lab.root) == ["a", "b"]


def test_files_that_cannot_be_deleted_do_not_fail_the_day(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ConnectError("no")

    monkeypatch.setattr(commit, "delete_confirmed_attempt", broken)
    assert confirms(lab, again(lab, "t2")).checks == 1


def test_the_clean_up_of_the_log_leaves_what_counts(lab: Lab) -> None:
    confirms(lab, again(lab, "t2", run="dag/run-2/task", clear_number=4))
    confirms(lab, again(lab, "t3", run="dag/run-3/task"))
    for _ in range(2):
        lab.publish(MAY + dt.timedelta(days=1), ["x"], f"o{_}")
    lab.clean_log()
    newest = lab.ledger.newest(MAY, "day")
    assert (newest.generation, newest.checks, newest.answer, newest.rows) == (1, 2, ANSWER, 2)
    for token in ("t1", "t2", "t3"):
        found = lab.ledger.published(MAY, token)
        assert (found.generation, found.token) == (1, token)
    stale = again(lab, "t5")
    assert confirms(lab, again(lab, "t4", run="dag/run-3/task", clear_number=1)).checks == 3
    lab.clean_log()
    with pytest.raises(OvertakenError, match="confirmed generation 1"):
        confirms(lab, stale)


def test_the_run_that_confirmed_last_is_known_without_the_history(lab: Lab) -> None:
    confirms(lab, again(lab, "t2", run="two"))
    confirms(lab, again(lab, "t3", run="three", clear_number=1))
    lab.publish(MAY + dt.timedelta(days=1), ["x"], "o")
    lab.clean_log()
    view = lab.ledger.view()
    assert {run: view.newest(MAY, run).run for run in ("two", "three", "dag/run-t1/task")} == {
        "two": None,
        "three": "three",
        "dag/run-t1/task": None,
    }


def test_a_publish_of_a_version_without_answers_is_never_unchanged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes neither answer nor checks, and leaves those of the generation before."""
    confirms(lab, again(lab, "t2"))
    with monkeypatch.context() as older:
        older.setattr(app_transactions, "_answer_transactions", lambda *_: {})
        lab.publish(MAY, ["c"], "t3", answer="1" * 32)
    newest = lab.ledger.newest(MAY, "day")
    assert (newest.generation, newest.checks, newest.answer) == (2, 0, None)
    with pytest.raises(OvertakenError):
        confirms(lab, again(lab, "t4"))


@pytest.mark.parametrize("winner", ["publishes", "confirms"])
def test_a_commit_between_a_look_and_a_confirmation_wins(
    lab: Lab, winner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged, other = again(lab, "t2"), again(lab, "t3")
    write = Confirmation._write

    def late(self: Confirmation, table: DeltaTable, row: LedgerRow) -> None:
        monkeypatch.setattr(Confirmation, "_write", write)
        lab.commit(other) if winner == "publishes" else confirms(lab, other)
        write(self, table, row)

    monkeypatch.setattr(Confirmation, "_write", late)
    with pytest.raises(OvertakenError):
        confirms(lab, staged)
    newest = lab.ledger.newest(MAY, "day")
    assert (newest.generation, newest.checks) == ((2, 0) if winner == "publishes" else (1, 1))
    assert lab.ledger.published(MAY, "t2") is None


def test_a_confirmation_between_a_look_and_a_publish_wins(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    staged, other = lab.stage(MAY, ["old"], "t2"), again(lab, "t3")
    real = app_transactions.publish_transactions

    def late(*arguments: Any) -> dict[str, int]:
        monkeypatch.setattr("airflow_provider_connect.sinks._delta.commit.publish_transactions", real)
        confirms(lab, other)
        return real(*arguments)

    monkeypatch.setattr("airflow_provider_connect.sinks._delta.commit.publish_transactions", late)
    with pytest.raises(OvertakenError, match="confirmed generation 1"):
        lab.commit(staged)
    assert rows_of(lab.root) == ["a", "b"]
