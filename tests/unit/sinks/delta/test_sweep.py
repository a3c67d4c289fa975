"""A sweep beside a publish, every way they can meet: the log says who was first, and no clock does."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sink import LedgerRow, Publish
from airflow_provider_connect.sinks._delta import commit as _delta_commit
from airflow_provider_connect.sinks._delta.sweep import Sweeper
from airflow_provider_connect.stage.manifest import SeenPublish, attempt_folder, data_file
from airflow_provider_connect.stage.poll_plans import part_record_file, plan_file
from airflow_provider_connect.stage.storage import Folder
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import KEY, MAY, Lab, age, files_of, rows_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table").make()


@pytest.fixture
def between_claim_and_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Let something happen once while a publisher sleeps after it has claimed its attempt."""

    def install(happens: Callable[[], Any]) -> None:
        claim = _delta_commit.claim_files
        waiting = [happens]

        def claim_and_sleep(*args: Any) -> Any:
            claimed = claim(*args)
            if waiting:
                waiting.pop()()
            return claimed

        monkeypatch.setattr(_delta_commit, "claim_files", claim_and_sleep)

    return install


@pytest.fixture
def around_the_mark(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let something happen once just before, or just after, a sweep records what it has swept."""

    def install(before: Callable[[], Any] | None = None, after: Callable[[], Any] | None = None) -> None:
        record = Sweeper._record
        first, last = [before] if before else [], [after] if after else []

        def recorded(sweeper: Sweeper, *args: Any) -> None:
            if first:
                first.pop()()
            record(sweeper, *args)
            if last:
                last.pop()()

        monkeypatch.setattr(Sweeper, "_record", recorded)

    return install


def add_by_hand(lab: Lab, publish: Publish) -> None:
    """Bring staged files into the table as somebody else might, past the ledger."""
    table = DeltaTable(str(lab.root))
    files = [
        AddAction(f.path, f.size_bytes, {"day": str(publish.day)}, 0, True, '{"numRecords":1}')
        for f in publish.manifest.polled.files
    ]
    table.create_write_transaction(files, mode="append", schema=table.schema(), partition_by=["day"])


def test_sweep_deletes_the_dead_and_keeps_the_published(lab: Lab) -> None:
    published = lab.stage(MAY, ["a"], "t1")
    control = lab.root / attempt_folder(published.manifest.attempt)
    (control / "rejects-0.parquet").write_bytes(b"r")
    for name in (plan_file(control.name), part_record_file(control.name, 0)):
        (lab.root / name).write_text("{}")
    failed_try = lab.root / data_file(Day(date=MAY), published.manifest.attempt, 0, "9")
    failed_try.write_bytes(b"half")
    lab.commit(published)
    lab.publish(MAY, ["b"], "t2")
    empty = lab.publish(MAY + dt.timedelta(days=1), [], "t2")
    dead = lab.stage(MAY, ["dead"], "t3")
    no_manifest = lab.root / attempt_folder("t4-x") / "progress-0.json"
    no_manifest.parent.mkdir()
    no_manifest.write_text("{}")
    foreign = lab.root / f"day={MAY}" / "part-0.parquet"
    foreign.write_bytes(b"f")
    assert lab.sweep() == 0, "nothing is old yet"
    age(lab.root)
    alive = lab.stage(MAY, ["alive"], "t5")
    listed, before = lab.publisher.leftovers(), files_of(lab.root)
    assert lab.sweep() == 13
    assert sorted(listed) == sorted(before - files_of(lab.root)), "a dry run names what a sweep deletes"
    assert rows_of(lab.root) == ["b"]
    assert lab.there(published), "replaced, but published once"
    assert {p.name for p in control.iterdir()} == {"rejects-0.parquet", "manifest.json", "published.json"}
    assert not failed_try.exists()
    assert not lab.there(dead)
    assert not (lab.root / attempt_folder(dead.manifest.attempt)).exists()
    assert not no_manifest.parent.exists()
    assert foreign.exists()
    assert (lab.root / attempt_folder(f"t2-{empty.day}") / "manifest.json").exists()
    age(lab.root / attempt_folder(published.manifest.attempt))
    before = lab.version
    assert lab.sweep() == 0, "settled attempts are left alone"
    assert lab.version == before
    assert lab.commit(alive).generation == 3
    again = dead.manifest.model_copy(update={"seen": SeenPublish(day=MAY, generation=3)})
    with pytest.raises(RetriableError, match="sweep found it"):
        lab.commit(dataclasses.replace(dead, manifest=again))


def test_a_publisher_that_slept_while_its_files_were_swept_publishes_nothing(
    lab: Lab, between_claim_and_commit: Callable[[Callable[[], Any]], None]
) -> None:
    lab.publish(MAY, ["old"])
    asleep = lab.stage(MAY, ["new"], "t2")

    def sweep() -> None:
        age(lab.root)
        assert lab.sweep() > 0

    between_claim_and_commit(sweep)
    with pytest.raises(RetriableError, match="sweep found it"):
        lab.commit(asleep)
    assert rows_of(lab.root) == ["old"], "every file that the table names is there"
    assert lab.publish(MAY, ["polled again"], "t2", attempt="t2-again").generation == 2


def test_a_publisher_that_slept_longer_than_the_log_remembers_publishes_nothing(
    lab: Lab, between_claim_and_commit: Callable[[Callable[[], Any]], None]
) -> None:
    asleep = lab.stage(MAY, ["new"], "t2")

    def sweep() -> None:
        age(lab.root)
        lab.sweep()
        lab.publish(MAY + dt.timedelta(days=1), ["another"], "t3")
        lab.clean_log()

    between_claim_and_commit(sweep)
    with pytest.raises(RetriableError, match="sweep found it"):
        lab.commit(asleep)
    assert rows_of(lab.root) == ["another"]
    assert lab.ledger.row(MAY) is None


def test_a_publish_that_lands_while_a_sweep_decides_is_kept(lab: Lab, around_the_mark: Callable[..., None]) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    age(lab.root)
    around_the_mark(before=lambda: lab.commit(publish))
    lab.sweep()
    assert lab.there(publish)
    assert rows_of(lab.root) == ["a"]
    assert lab.ledger.row(MAY).generation == 1


def test_a_publish_replaced_while_a_sweep_decides_stays_readable(
    lab: Lab, around_the_mark: Callable[..., None]
) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    dead = lab.stage(MAY, ["dead"], "t0")
    age(lab.root)

    def twice() -> None:
        lab.commit(publish)
        lab.publish(MAY, ["b"], "t2")

    around_the_mark(before=twice)
    lab.sweep()
    assert lab.there(publish), "no version names it any more but older ones"
    assert not lab.there(dead)
    assert rows_of(lab.root) == ["b"]


def test_a_publish_after_the_mark_and_before_the_files_go_is_refused(
    lab: Lab, around_the_mark: Callable[..., None]
) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    age(lab.root)
    ended: list[LedgerRow | Exception] = []

    def try_to_publish() -> None:
        try:
            ended.append(lab.commit(publish))
        except RetriableError as error:
            ended.append(error)

    around_the_mark(after=try_to_publish)
    lab.sweep()
    assert "sweep found it" in str(ended[0])
    assert lab.ledger.row(MAY) is None
    assert rows_of(lab.root) == []


def test_an_attempt_marked_by_a_dead_sweep_is_never_published_and_deleted_later(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    age(lab.root)
    with monkeypatch.context() as patch:
        patch.setattr(Sweeper, "_delete_dead_attempt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            lab.sweep()
    assert lab.there(publish)
    with pytest.raises(RetriableError, match="sweep found it"):
        lab.commit(publish)
    assert not (lab.root / attempt_folder(publish.manifest.attempt) / "manifest.json").exists(), "no retry finds it"
    before = lab.version
    age(lab.root)
    assert lab.sweep() > 0
    assert not lab.there(publish)
    assert lab.version == before, "what is marked is not marked again"


def test_two_sweeps_at_once_agree(lab: Lab, around_the_mark: Callable[..., None]) -> None:
    dead = lab.stage(MAY, ["dead"], "t1")
    alive = lab.publish(MAY, ["a"], "t2")
    age(lab.root)
    around_the_mark(before=lab.sweep)
    lab.sweep()
    assert not lab.there(dead)
    assert rows_of(lab.root) == ["a"]
    assert lab.ledger.row(MAY) == alive


def test_a_machine_whose_clock_is_a_year_ahead_sweeps_nothing_that_lives(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return super().now(tz) + dt.timedelta(days=366)

    publish = lab.stage(MAY, ["a"], "t1")
    with monkeypatch.context() as patch:
        patch.setattr(dt, "datetime", Ahead)
        assert dt.datetime.now(dt.UTC).year > MAY.year
        assert lab.sweep() == 0
    assert lab.commit(publish).generation == 1


def test_a_file_that_the_table_names_stays_though_the_ledger_knows_nothing_of_it(lab: Lab) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    add_by_hand(lab, publish)
    age(lab.root)
    before = lab.version
    assert lab.sweep() == 0
    assert lab.version == before, "nor is its attempt marked as swept"
    assert (lab.root / attempt_folder(publish.manifest.attempt) / "manifest.json").exists()
    assert rows_of(lab.root) == ["a"]


def test_a_file_that_came_into_the_table_while_a_sweep_marked_it_stays(
    lab: Lab, around_the_mark: Callable[..., None]
) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    age(lab.root)
    around_the_mark(after=lambda: add_by_hand(lab, publish))
    lab.sweep()
    assert rows_of(lab.root) == ["a"], "the newest version is read once more before anything is deleted"


def test_days_restored_by_hand_are_not_swept(lab: Lab) -> None:
    first = lab.stage(MAY, ["a"], "t1")
    lab.commit(first)
    version = lab.version
    lab.publish(MAY, ["b"], "t2")
    DeltaTable(str(lab.root)).restore(version)
    age(lab.root)
    lab.sweep()
    assert rows_of(lab.root) == ["a"]


def test_a_sweep_of_another_streams_table_touches_nothing(lab: Lab) -> None:
    from airflow_provider_connect.sink import StreamKey

    dead = lab.stage(MAY, ["dead"], "t1")
    age(lab.root)
    assert lab.sink.open(StreamKey(connector="mixpanel", stream="other"), {}).sweep() == 0
    assert lab.there(dead)


def test_nothing_is_swept_that_a_lost_ledger_may_name(lab: Lab) -> None:
    published = lab.stage(MAY, ["a"], "t1")
    lab.commit(published)
    (lab.root / "_delta_log").rename(lab.root.parent / "lost")
    age(lab.root)
    with pytest.raises(ConfigError, match="is gone"):
        lab.sweep()
    assert lab.there(published)


def test_a_sweep_of_many_attempts_compares_no_file_with_each_of_them(lab: Lab) -> None:
    compared = []

    class Attempt(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    staged = [lab.stage(MAY, ["a"], f"t{i}") for i in range(8)]
    attempts = [Attempt(publish.manifest.attempt) for publish in staged]
    found = Sweeper(Folder(str(lab.root)), KEY, dt.timedelta(0))._data_files(list(attempts))
    assert sorted(found) == sorted(attempts)
    assert len(compared) < 8 * 4, "not each file with each attempt"
