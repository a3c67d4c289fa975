"""The ledger's transactions are read from the log at once, and as delta-rs has them, however the log is laid out."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import RetriableError
from airflow_provider_connect.sinks._delta.app_transactions import app_prefix
from airflow_provider_connect.sinks._delta.ledger import LedgerView
from airflow_provider_connect.sinks._delta.log import read_transactions
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import ONE_DAY
from tests.equipment.delta.lab import KEY, MAY, Lab, age

FAR = dt.date(2015, 1, 1)
PREFIX = app_prefix(KEY)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table").make()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The application ids that delta-rs was asked for, one reading of the log's end each."""
    ids: list[str] = []
    ask = DeltaTable.transaction_version

    def counted(table: DeltaTable, app: str) -> int | None:
        ids.append(app)
        assert len(ids) < 200, "one question for every date between"
        return ask(table, app)

    monkeypatch.setattr(DeltaTable, "transaction_version", counted)
    return ids


def checkpoint(lab: Lab) -> None:
    DeltaTable(str(lab.root)).create_checkpoint()


def hint(lab: Lab) -> Path:
    return lab.root / "_delta_log" / "_last_checkpoint"


@pytest.mark.parametrize("cleaned", [False, True])
def test_days_eleven_years_apart_are_read_without_a_question_for_each_date_between(
    lab: Lab, asked: list[str], *, cleaned: bool
) -> None:
    for date in (FAR, MAY):
        lab.publish(date, ["a"], f"t{date}")
    if cleaned:
        lab.clean_log()
    assert list(lab.ledger.days()) == [FAR, MAY]
    assert lab.ledger.newest(FAR, "day").rows == 1
    assert lab.preflight() == []
    assert asked == []


def test_an_empty_day_that_stands_apart_is_remembered_after_the_logs_clean_up(lab: Lab) -> None:
    lab.publish(MAY + 10 * ONE_DAY, [], "t1")
    lab.publish(MAY, ["a"], "t2")
    lab.clean_log()
    assert list(lab.ledger.days()) == [MAY, MAY + 10 * ONE_DAY]


def test_a_sweep_and_a_publish_read_the_ledger_in_one_pass(lab: Lab, asked: list[str]) -> None:
    for i in range(4):
        lab.stage(MAY + i * ONE_DAY, ["dead"], f"t{i}")
    age(lab.root)
    assert lab.sweep() > 0
    lab.publish(MAY, ["a"], "t9")
    assert asked == []


def test_the_ledger_of_every_version_equals_deltas_own(lab: Lab) -> None:
    """Also an older one, which the log's hint at a newer checkpoint is of no use for."""
    for i in range(13):
        lab.publish(MAY + (i % 5) * ONE_DAY, ["x"] * (i % 3), f"t{i}", clear_number=i)
    newest = read_transactions(Folder(str(lab.root)), lab.version, PREFIX)
    assert len(newest) == 5 * 4 + 13 * 3
    for version in range(lab.version + 1):
        table = DeltaTable(str(lab.root), version=version)
        known = {app: at for app in newest if (at := table.transaction_version(app)) is not None}
        assert read_transactions(Folder(str(lab.root)), version, PREFIX) == known


def no_checkpoint(lab: Lab) -> None:
    """A log of commits alone."""


def checkpoint_and_tail(lab: Lab) -> None:
    lab.clean_log()
    lab.publish(MAY + 3 * ONE_DAY, ["c"], "t3")


def hint_lost(lab: Lab) -> None:
    checkpoint_and_tail(lab)
    hint(lab).unlink()


def hint_behind(lab: Lab) -> None:
    checkpoint(lab)
    old = hint(lab).read_text()
    checkpoint_and_tail(lab)
    checkpoint(lab)
    hint(lab).write_text(old)


def in_parts(lab: Lab) -> None:
    checkpoint_and_tail(lab)
    lab.checkpoint_elsewise("parts")


def under_a_uuid(lab: Lab) -> None:
    checkpoint_and_tail(lab)
    lab.checkpoint_elsewise("uuid")


def in_parts_with_all_commits(lab: Lab) -> None:
    checkpoint(lab)
    lab.checkpoint_elsewise("parts")


def in_parts_of_which_one_is_lost(lab: Lab) -> None:
    """As a writer leaves it that is killed in the middle: an older checkpoint and the commits say the same."""
    checkpoint(lab)
    older = max((lab.root / "_delta_log").glob("*.checkpoint.parquet")).read_bytes()
    name = f"{lab.version:020}.checkpoint.parquet"
    lab.publish(MAY + 3 * ONE_DAY, ["c"], "t3")
    checkpoint(lab)
    lab.checkpoint_elsewise("parts")
    (lab.root / "_delta_log" / name).write_bytes(older)
    max((lab.root / "_delta_log").glob("*.checkpoint.0000000002.*")).unlink()
    hint(lab).unlink()


LAYOUTS = [
    no_checkpoint,
    checkpoint_and_tail,
    hint_lost,
    hint_behind,
    in_parts,
    under_a_uuid,
    in_parts_with_all_commits,
    in_parts_of_which_one_is_lost,
]


@pytest.mark.parametrize("lay_out", LAYOUTS)
def test_the_ledger_equals_deltas_own_in_every_layout_of_the_log(lab: Lab, lay_out: Callable[[Lab], None]) -> None:
    lab.publish(MAY, ["a"], "t0", run="r", clear_number=2)
    lab.publish(MAY + ONE_DAY, [], "t1")
    lab.publish(MAY, ["a", "b"], "t2", run="r", clear_number=3)
    lay_out(lab)
    table = DeltaTable(str(lab.root))
    view = LedgerView(Folder(str(lab.root)), table, KEY)
    for date in (MAY, MAY + ONE_DAY, MAY + 3 * ONE_DAY, FAR):
        for what in ("", "/rows", "/clear", "/polled", "/run/r", "/token/t0", "/token/t2", "/token/t3"):
            assert view.transaction(date, what) == table.transaction_version(f"{PREFIX}{date}{what}")
    row = lab.ledger.newest(MAY, "day")
    assert (row.generation, row.rows, row.clear_number) == (2, 2, 3)
    there = [MAY, MAY + ONE_DAY] + [MAY + 3 * ONE_DAY] * (
        table.transaction_version(f"{PREFIX}{MAY + 3 * ONE_DAY}") or 0
    )
    assert list(lab.ledger.days()) == there


@pytest.mark.parametrize("layout", ["parts", "uuid"])
def test_days_far_apart_are_read_at_once_from_another_engines_checkpoint(
    lab: Lab, asked: list[str], layout: str
) -> None:
    for date in (FAR, MAY + ONE_DAY):
        lab.publish(date, [], f"t{date}")
    lab.publish(MAY, ["a"], "t1")
    lab.clean_log()
    lab.checkpoint_elsewise(layout)
    assert list(lab.ledger.days()) == [FAR, MAY, MAY + ONE_DAY], "empty days too"
    assert asked == []


def test_a_checkpoint_in_json_is_read(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    actions = [{"txn": {"appId": f"{PREFIX}x", "version": 7}}, {"txn": {"appId": "other", "version": 1}}, {"add": {}}]
    name = f"{1:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    folder.write(f"_delta_log/{name}", "\n".join(map(json.dumps, actions)).encode())
    assert read_transactions(folder, 1, PREFIX) == {f"{PREFIX}x": 7}


def test_a_missing_or_cut_commit_is_an_error(lab: Lab) -> None:
    for i in range(3):
        lab.publish(MAY + i * ONE_DAY, ["a"], f"t{i}")
    folder, commit = Folder(str(lab.root)), lab.root / "_delta_log" / f"{2:020}.json"
    assert read_transactions(folder, 3, PREFIX)
    commit.write_text('{"txn": {"appId"')
    with pytest.raises(RetriableError, match="cannot be read up to version 3"):
        read_transactions(folder, 3, PREFIX)
    commit.unlink()
    with pytest.raises(RetriableError, match="cannot be read up to version 3"):
        read_transactions(folder, 3, PREFIX)
    assert read_transactions(folder, 1, PREFIX)


def test_a_damaged_checkpoint_is_an_error(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    version = lab.version
    checkpoint(lab)
    max((lab.root / "_delta_log").glob("*.checkpoint.parquet")).write_bytes(b"")
    with pytest.raises(RetriableError, match=f"{lab.root}/_delta_log"):
        read_transactions(Folder(str(lab.root)), version, PREFIX)


def test_a_store_that_goes_away_while_the_log_is_read_is_named_and_asked_again_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.publish(MAY, ["a"])

    def away(*_: object) -> bytes:
        raise RetriableError("s3://bucket/table: OSError: connection refused")

    monkeypatch.setattr(Folder, "read", away)
    with pytest.raises(RetriableError, match="connection refused"):
        lab.ledger.days()
