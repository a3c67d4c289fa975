"""What a sweep over the tables of a template deletes, and what it keeps."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sink import Publish
from airflow_provider_connect.stage.manifest import attempt_folder, manifest_file
from tests.equipment.delta.lab import MAY, age, files_of
from tests.equipment.delta.tables import Steps, TablesLab, steps

__all__ = ["steps"]

OLD = {"login": ["o1"], "signup": ["o2"]}
NEW = {"login": ["n1"], "buy": ["n2"], "leave": ["n3"]}


@pytest.fixture
def lab(tmp_path: Path) -> TablesLab:
    return TablesLab(tmp_path / "lake").make()


def there(lab: TablesLab, publish: Publish) -> list[str]:
    """Return the tables that have files of a publish, live or not."""
    return sorted(f.path.partition("/")[0] for f in publish.manifest.polled.files if (lab.root / f.path).exists())


def swept(lab: TablesLab) -> int:
    """Sweep; just what was listed before must be deleted."""
    listed, before = lab.publisher.leftovers(), files_of(lab.root)
    deleted = lab.publisher.sweep()
    assert sorted(listed) == sorted(before - files_of(lab.root))
    assert deleted == len(listed)
    assert lab.publisher.leftovers() == []
    return int(deleted)


def test_the_dead_are_deleted_in_every_table_and_the_published_and_living_stay(lab: TablesLab) -> None:
    published, dead = lab.stage(OLD, "t1"), lab.stage(NEW, "t2", MAY + dt.timedelta(days=1))
    lab.commit(published)
    failed = lab.root / "login" / f"day={MAY}" / f"{published.manifest.attempt}-00000-9.parquet"
    failed.write_bytes(b"half")
    assert swept(lab) == 0
    age(lab.root)
    living = lab.stage(NEW, "t3", MAY + dt.timedelta(days=2))
    assert swept(lab) > 0
    assert (there(lab, published), there(lab, dead), there(lab, living)) == (
        ["login", "signup"],
        [],
        ["buy", "leave", "login"],
    )
    assert not failed.exists()
    assert not (lab.root / attempt_folder(dead.manifest.attempt)).exists()
    assert (lab.root / manifest_file(published.manifest.attempt)).exists()
    with pytest.raises(RetriableError, match="sweep found it dead"):
        lab.commit(dead)
    lab.commit(living)
    assert swept(lab) == 0
    assert lab.shown() == lab.expected(OLD)


def test_rows_committed_by_a_dead_attempt_stay_until_the_day_is_published_again(lab: TablesLab, steps: Steps) -> None:
    lab.publish(OLD)
    dead = lab.stage(NEW, "t2")
    with steps.killed_at("table 3"):
        lab.commit(dead)
    age(lab.root)
    assert swept(lab) > 0
    assert there(lab, dead) == ["buy", "leave"], "a table's log has them"
    assert lab.shown() == {"buy": ["n2"], "leave": ["n3"], "login": ["o1"], "signup": ["o2"]}
    with pytest.raises(RetriableError, match="sweep found it dead"):
        lab.commit(dead)
    lab.publish(OLD, "t3")
    assert lab.shown() == lab.expected(OLD)
    assert swept(lab) == 0


def test_rows_committed_by_a_dead_attempt_can_be_read_by_version_until_a_vacuum(lab: TablesLab, steps: Steps) -> None:
    dead = lab.stage(NEW, "t2")
    with steps.killed_at("table 3"):
        lab.commit(dead)
    lab.publish(OLD, "t3")
    age(lab.root)
    assert swept(lab) > 0
    assert there(lab, dead) == ["buy", "leave"]
    assert lab.shown() == lab.expected(OLD)


def test_a_publisher_that_wakes_after_a_sweep_commits_to_no_table(lab: TablesLab, steps: Steps) -> None:
    lab.publish(OLD)
    mine = lab.stage(NEW, "t2")

    def sweep() -> None:
        age(lab.root)
        assert lab.publisher.sweep() > 0

    before = DeltaTable(str(lab.root / "buy")).version() if "buy" in lab.names() else 0
    with steps.at("table 1", sweep), pytest.raises(RetriableError, match="sweep found it dead"):
        lab.commit(mine)
    assert lab.shown() == lab.expected(OLD)
    assert DeltaTable(str(lab.root / "buy")).version() == before + 1, "the sweep's record alone"


def test_nothing_is_swept_while_a_log_is_lost(lab: TablesLab) -> None:
    published = lab.stage(OLD, "t1")
    lab.commit(published)
    dead = lab.stage(NEW, "t2")
    (lab.root / "login" / "_delta_log").rename(lab.root.parent / "kept")
    age(lab.root)
    with pytest.raises(ConfigError, match="login is gone"):
        lab.publisher.sweep()
    assert there(lab, published) == ["login", "signup"]
    assert there(lab, dead) == ["buy", "leave", "login"]
