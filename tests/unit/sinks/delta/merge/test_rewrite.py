"""A table of another write mode, written once by key: the newest row of each key stays, and merges go on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigError, DataError
from airflow_provider_connect.sinks._delta.merge import matching
from airflow_provider_connect.sinks._delta.merge.rewrite import KeyRewrite
from tests.equipment.delta.lab import Lab, age
from tests.equipment.delta.merging import DAYS, MergeLab, Row


def filled(root: Path, days: list[list[Row]]) -> Lab:
    """Return a table that got these days by ``write_mode="replace"``."""
    lab = MergeLab(root, write_mode="replace", key=()).made()
    for day, rows in zip(DAYS, days, strict=False):
        lab.put(day, rows)
    return lab


def test_the_newest_row_of_each_key_stays_in_its_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "ROUND_BYTES", 100)
    filled(tmp_path / "t", [[(1, "a", 3.0), (2, "a", 1.0)], [(1, "b", 2.0), (2, "b", 1.0), (3, "b")], [(4, "c")]])
    lab = MergeLab(tmp_path / "t", newest_by="version")
    before = lab.version
    assert lab.publisher.rewrite_by_key() == (6, 4)
    assert lab.version == before + 1
    expected = [(1, "a", DAYS[0]), (2, "b", DAYS[1]), (3, "b", DAYS[1]), (4, "c", DAYS[2])]
    assert lab.shown("id", "value", "day") == expected
    assert lab.publisher.rewrite_by_key() == (4, 4)
    assert (lab.version, lab.preflight(lab.schema)) == (before + 1, [])
    age(lab.root)
    lab.sweep()
    lab.put(DAYS[1], [(2, "b2", 1.0), (1, "b2", 2.5)], "again")
    assert lab.shown() == [(1, "a"), (2, "b2"), (3, "b"), (4, "c")]
    assert [row.generation for row in lab.ledger.between(DAYS[0], DAYS[2])] == [1, 2, 1]


def test_deleted_keys_are_gone_and_remembered(tmp_path: Path) -> None:
    filled(tmp_path / "t", [[(1, "a"), (2, "a"), (3, "a", None, True)], [(1, "b", None, True)], [(3, "c")]])
    lab = MergeLab(tmp_path / "t", delete_where="gone")
    assert lab.publisher.rewrite_by_key() == (5, 2)
    assert lab.shown() == [(2, "a"), (3, "c")]
    lab.put(DAYS[0], [(1, "old"), (3, "old")], "again")
    assert lab.shown() == [(2, "a"), (3, "c")]


def test_a_publish_of_the_former_write_mode_is_refused_afterwards(tmp_path: Path) -> None:
    plain = filled(tmp_path / "t", [[(1, "a")], [(1, "b")]])
    assert isinstance(plain, MergeLab)
    publish = plain.stage_rows(DAYS[2], [(1, "c")])
    MergeLab(tmp_path / "t").publisher.rewrite_by_key()
    with pytest.raises(ConfigError, match=r"is merged by key=\('id',\)"):
        plain.commit(publish)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"write_mode": "replace", "key": ()}, ConfigError, "Set write_mode='merge' and key= first"),
        ({"key": ("nothing",)}, ConfigError, "key names 'nothing'"),
        ({"key": ("version",)}, ConfigError, "key names 'version', which is double"),
        ({"key": ("value",)}, DataError, r"1 rows up to 2026-05-01 have NULL in the key \(value\)"),
    ],
)
def test_a_rewrite_that_cannot_be_changes_nothing(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    lab = filled(tmp_path / "t", [[(1, "a"), (1, None)]])
    before = lab.version
    with pytest.raises(error, match=message):
        MergeLab(tmp_path / "t", **options).publisher.rewrite_by_key()
    assert lab.version == before


def test_a_table_of_another_rule_is_not_rewritten(tmp_path: Path) -> None:
    lab = MergeLab(tmp_path / "t").made()
    lab.put(DAYS[0], [(1, "a")])
    with pytest.raises(ConfigError, match="newest_by was None and is 'version'"):
        MergeLab(tmp_path / "t", newest_by="version").publisher.rewrite_by_key()


def test_a_day_that_is_published_meanwhile_is_rewritten_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = filled(tmp_path / "t", [[(1, "a")], [(1, "b")]])
    assert isinstance(plain, MergeLab)
    commit, pending = KeyRewrite._commit, [True]

    def after_another(self: KeyRewrite, *given: Any) -> None:
        if pending:
            pending.pop()
            plain.put(DAYS[2], [(1, "c"), (2, "c")])
        commit(self, *given)

    monkeypatch.setattr(KeyRewrite, "_commit", after_another)
    lab = MergeLab(tmp_path / "t")
    assert lab.publisher.rewrite_by_key() == (4, 2)
    assert lab.shown() == [(1, "c"), (2, "c")]
    assert len(list(lab.root.glob("day=*/*merged*"))) == 0, "no file held both kept and dropped rows"


def test_a_killed_rewrite_changes_nothing_and_its_files_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = filled(tmp_path / "t", [[(1, "a"), (2, "a")], [(1, "b")]])
    lab, before = MergeLab(tmp_path / "t"), set(plain.root.rglob("*.parquet"))

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(KeyRewrite, "_commit", die)
        killed.setattr("airflow_provider_connect.sinks._delta.merge.files.MergedFiles.delete", lambda self: None)
        with pytest.raises(KeyboardInterrupt):
            lab.publisher.rewrite_by_key()
    assert set(plain.root.rglob("*.parquet")) > before
    age(lab.root)
    lab.sweep()
    assert set(plain.root.rglob("*.parquet")) == before
    assert lab.publisher.rewrite_by_key() == (3, 2)


def test_an_error_after_the_commit_deletes_no_file_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "t", [[(1, "a"), (2, "a")], [(1, "b")]])
    lab = MergeLab(tmp_path / "t")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("airflow_provider_connect.sinks._delta.merge.rewrite.flush_log", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lab.publisher.rewrite_by_key()
    assert lab.shown() == [(1, "b"), (2, "a")]
    age(lab.root)
    lab.sweep()
    assert lab.shown() == [(1, "b"), (2, "a")]
