"""A Delta table whose log is lost, set back, unreadable, in an odd place, or not yet on the disk."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.sinks._delta import log as _delta_log
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import data_file
from airflow_provider_connect.window import ONE_DAY, Day
from tests.equipment.delta.lab import KEY, MAY, SCHEMA, Lab, age, rows_of
from tests.equipment.stores.nobody import as_nobody


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(_delta_log, "_OPEN_AGAIN_SECONDS", 0.01)
    return Lab(tmp_path / "table").make()


def refusals(lab: Lab) -> list[str]:
    """Return what each way into the table says."""
    said = lab.preflight()
    for ask in (lab.ledger.days, lambda: lab.ledger.row(MAY), lab.sweep, lambda: lab.ledger.newest(MAY, "day")):
        with pytest.raises(ConfigError) as caught:
            ask()
        said.append(str(caught.value))
    return said


def test_a_lost_log_is_not_a_new_table(lab: Lab) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    lab.commit(publish)
    late = lab.stage(MAY, ["b"], "t2")
    (lab.root / "_delta_log").rename(lab.root.parent / "backup")
    age(lab.root)
    for said in refusals(lab):
        assert "is gone, but the table's files exist" in said
        assert f"Restore {lab.root}/_delta_log" in said
    with pytest.raises(ConfigError, match="is gone"):
        lab.commit(late)
    assert lab.there(publish)
    assert not (lab.root / "_delta_log").exists()
    (lab.root.parent / "backup").rename(lab.root / "_delta_log")
    assert lab.preflight() == []
    assert rows_of(lab.root) == ["a"]


@pytest.mark.parametrize("left", ["the data", "the attempts", "the notes"])
def test_any_trace_of_a_table_shows_that_its_log_is_lost(lab: Lab, left: str) -> None:
    lab.publish(MAY, ["a"])
    gone = {"the data": ["_connect"], "the attempts": [f"day={MAY}", "_connect/log"]}
    for name in ["_delta_log", *gone.get(left, [f"day={MAY}", "_connect/attempts"])]:
        shutil.rmtree(lab.root / name)
    assert "is gone" in refusals(lab)[0]


def test_a_table_deleted_whole_may_be_made_anew(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    shutil.rmtree(lab.root)
    assert len(lab.ledger.days()) == 0
    assert lab.sweep() == 0
    assert lab.make().publish(MAY, ["b"], "t2").generation == 1


def test_a_table_deleted_under_a_job_is_not_made_anew_by_its_commit(lab: Lab) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    shutil.rmtree(lab.root)
    with pytest.raises(ConfigError, match="was deleted"):
        lab.commit(publish)
    assert not lab.root.exists()


def test_a_log_set_back_under_its_data_is_refused_and_nothing_is_swept(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    shutil.copytree(lab.root / "_delta_log", lab.root.parent / "backup")
    newer = lab.stage(MAY + ONE_DAY, ["b"], "t2")
    lab.commit(newer)
    late = lab.stage(MAY, ["c"], "t3")
    shutil.rmtree(lab.root / "_delta_log")
    (lab.root.parent / "backup").rename(lab.root / "_delta_log")
    age(lab.root)
    for said in refusals(lab):
        assert "is at version 1, but version 2 was published" in said
    with pytest.raises(ConfigError, match="set back"):
        lab.commit(late)
    assert lab.there(newer)


def test_a_person_may_go_on_from_an_older_log(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    lab.publish(MAY + ONE_DAY, ["b"], "t2")
    (lab.root / "_delta_log" / f"{lab.version:020}.json").unlink()
    assert f"delete {lab.root}/_connect/log" in refusals(lab)[0]
    shutil.rmtree(lab.root / "_connect/log")
    assert lab.preflight() == []
    assert list(lab.ledger.days()) == [MAY]
    assert lab.publish(MAY + ONE_DAY, ["again"], "t3").generation == 1


def test_another_tables_log_over_our_data_is_refused(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    shutil.rmtree(lab.root / "_delta_log")
    nullable = SCHEMA.set(0, pa.field("event", pa.string()))
    owner = {"connect.stream": str(KEY)}
    made = {"partition_by": ["day"], "configuration": owner, "raise_if_key_not_exists": False}
    DeltaTable.create(str(lab.root), nullable, **made)
    for i in range(3):
        DeltaTable(str(lab.root)).alter.set_table_description(f"version {i}")
    assert "is not the log that its data files were published in" in refusals(lab)[0]


@pytest.mark.parametrize("version", [0, 1])
def test_a_log_with_a_gap_is_for_a_person(lab: Lab, version: int) -> None:
    for i in range(3):
        lab.publish(MAY + i * ONE_DAY, ["a"], f"t{i}")
    (lab.root / "_delta_log" / f"{version:020}.json").unlink()
    assert "has lost commits" in refusals(lab)[0]


def test_notes_name_only_the_newest_version_and_survive_a_slower_writer(lab: Lab) -> None:
    old = DeltaTable(str(lab.root))
    for i in range(3):
        lab.publish(MAY + i * ONE_DAY, ["a"], f"t{i}")
    _delta_log.make_durable(_delta_log.Folder(str(lab.root)), old)
    assert [path.name[:20] for path in (lab.root / "_connect/log").iterdir()] == [f"{lab.version:020}"]


def test_a_table_that_cannot_be_read_is_not_an_empty_one(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    newest = lab.root / "_delta_log" / f"{lab.version:020}.json"
    newest.write_text('{"cut')
    with pytest.raises(RetriableError, match=str(lab.root)):
        lab.ledger.days()


def test_a_log_that_delta_cannot_find_although_it_is_there_is_not_taken_for_no_table(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    import deltalake
    from deltalake.exceptions import TableNotFoundError

    def not_found(path: str) -> DeltaTable:
        raise TableNotFoundError("does not exist or you don't have access")

    shutil.rmtree(lab.root / "_connect")
    monkeypatch.setattr(deltalake, "DeltaTable", not_found)
    with pytest.raises(RetriableError, match="don't have access"):
        lab.ledger.days()
    for log in (lab.root / "_delta_log").glob("*.json"):
        log.rename(log.with_suffix(".checkpoint.parquet"))
    with pytest.raises(RetriableError, match="don't have access"):
        lab.ledger.days()


@pytest.mark.parametrize("closed", [".", "_delta_log", "_delta_log/00000000000000000000.json"])
def test_a_log_this_user_may_not_read_is_named_and_not_taken_for_no_table(
    closed: str,
) -> None:
    with tempfile.TemporaryDirectory() as open_to_all:
        Path(open_to_all).chmod(0o755)
        lab = Lab(Path(open_to_all) / "table").make()
        (lab.root / closed).chmod(0)
        with as_nobody(), pytest.raises(ConfigError, match=f"{lab.root}.*EACCES"):
            lab.ledger.days()
        (lab.root / closed).chmod(0o755)


def test_a_table_that_nobody_has_noted_is_written_below_a_folder_this_user_may_not_list() -> None:
    with tempfile.TemporaryDirectory() as above:
        Path(above).chmod(0o777)
        with as_nobody():
            lab = Lab(Path(above) / "table").make()
            shutil.rmtree(lab.root / "_connect/log")
        Path(above).chmod(0o333)
        with as_nobody():
            with pytest.raises(PermissionError):
                list(Path(above).iterdir())
            assert lab.publish(MAY, ["a"]).rows == 1
        Path(above).chmod(0o755)


@pytest.mark.parametrize("name", ["a b", "a?b", "a#b", "50%", "a%zz", "é日本", "a'b\"c", "[x]*", "a:b;c&d=e+f"])
def test_a_path_with_odd_letters_works_exactly(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path / name).make()
    lab.publish(MAY, ["a"])
    assert rows_of(lab.root) == ["a"]
    assert list(lab.ledger.days()) == [MAY]
    assert {path.name for path in lab.root.iterdir()} == {"_connect", "_delta_log", f"day={MAY}"}
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a%20b", "%2e%2e", "a\\b", "a\nb", "a\tb", "a\x7fb", "a%C3%A9"])
@pytest.mark.parametrize("place", ["/data/{}/t", "/data/{}", "s3://bucket/{}/t"])
def test_a_path_that_delta_reads_as_another_is_refused(place: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"for another place\. Choose a path without backslashes"):
        DeltaSink(path=place.format(name))


def test_a_file_in_the_tables_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    sink = DeltaSink(path=str(tmp_path / "file"))
    (problem,) = sink.open(KEY, {}).preflight(SCHEMA, (), "day")
    assert f"'{tmp_path}/file' is a file" in problem
    with pytest.raises(ConfigError, match="is a file"):
        sink.open(KEY, {}).ledger.days()
    assert (tmp_path / "file").read_text() == "x"


def test_only_own_data_files_show_that_a_log_is_lost(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t")
    (lab.root / "old").mkdir(parents=True)
    (lab.root / "old" / "readme.txt").write_text("x")
    (lab.root / "_connect").mkdir()
    (lab.root / "_connect" / "probe-1").write_text("a preflight died here")
    assert lab.make().publish(MAY, ["a"]).generation == 1
    assert not (lab.root / data_file(Day(date=MAY), "nobody", 0, "0")).exists()
