from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, DataError, OvertakenError, RetriableError
from airflow_provider_connect.registry import sink_class
from airflow_provider_connect.sink import StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage.manifest import attempt_folder, data_file
from airflow_provider_connect.window import Day
from tests.equipment.delta.lab import KEY, MAY, SCHEMA, Lab, rows_of


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table").make()


@pytest.fixture
def bare(tmp_path: Path) -> Lab:
    """A lab whose table nobody has made yet."""
    return Lab(tmp_path / "table")


def test_options_are_checked_and_survive_json() -> None:
    assert sink_class("delta") is DeltaSink
    sink = DeltaSink(path="file:///data/my%20lake/", sweep_after=dt.timedelta(hours=5))
    assert (sink.target, sink.asset_uri) == ("/data/my lake", "file:///data/my%20lake")
    assert DeltaSink.from_options(json.loads(sink.model_dump_json())) == sink
    assert DeltaSink(path="s3://bucket/a/b/").asset_uri == "s3://bucket/a/b"
    for path in ("relative/x", "s3://key:secret@bucket/x", "ftp://host/x", "/", "s3://b/x?endpoint=1"):
        with pytest.raises(ConfigError, match="path") as caught:
            DeltaSink(path=path)
        assert "secret" not in str(caught.value)


def test_a_day_is_published_replaced_and_remembered(lab: Lab) -> None:
    assert lab.ledger.row(MAY) is None
    assert not len(lab.ledger.days())
    first = lab.publish(MAY, ["a", "b"])
    assert (first.generation, first.rows, first.token) == (1, 2, "t1")
    assert lab.ledger.row(MAY) == first
    second = lab.publish(MAY, ["c"], "t2")
    assert second.generation == 2
    assert rows_of(lab.root) == ["c"]
    assert lab.ledger.row(MAY) == second
    assert lab.ledger.published(MAY, "t1") == first
    assert lab.ledger.published(MAY, "nobody") is None
    assert (lab.root / data_file(Day(date=MAY), f"t1-{MAY}", 0, "0")).exists(), "older versions stay readable"


def test_the_same_intent_again_changes_nothing(lab: Lab) -> None:
    first = lab.publish(MAY, ["a"])
    before = lab.version
    assert lab.publish(MAY, ["other"], attempt="t1-second") == first
    assert lab.version == before
    lab.publish(MAY, ["b"], "t2")
    assert lab.publish(MAY, ["a"]) == first, "known, though a newer generation followed"
    assert rows_of(lab.root) == ["b"]


def test_the_older_answer_of_two_is_refused_and_the_next_one_is_not(lab: Lab) -> None:
    stale = lab.stage(MAY, ["old"], "t1")
    lab.publish(MAY, ["new"], "t2")
    with pytest.raises(OvertakenError, match="run-t2/task has published generation 1") as caught:
        lab.commit(stale)
    assert (caught.value.by, caught.value.may_poll_again) == ("t2", True)
    assert rows_of(lab.root) == ["new"]
    assert lab.publish(MAY, ["polled again"], "t1", attempt="t1-again").generation == 2


def test_an_answer_that_was_polled_after_another_commit_of_the_same_second_wins(lab: Lab) -> None:
    lab.publish(MAY, ["started later"], "t2")
    assert lab.publish(MAY, ["polled later"], "t1").generation == 2
    assert rows_of(lab.root) == ["polled later"]


def test_an_empty_day_is_done_and_an_emptied_day_is_empty(lab: Lab) -> None:
    assert lab.publish(MAY, []).rows == 0
    assert list(lab.ledger.days()) == [MAY]
    lab.publish(MAY, ["a"], "t2")
    assert lab.publish(MAY, [], "t3").generation == 3
    assert rows_of(lab.root) == []
    assert list(lab.ledger.days()) == [MAY]


def test_columns_are_added_and_none_is_lost(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    wider = SCHEMA.append(pa.field("amount", pa.float64()))
    lab.publish(MAY + dt.timedelta(days=1), ["b"], schema=wider)
    lab.publish(MAY + dt.timedelta(days=2), ["c"], schema=pa.schema([SCHEMA.field("event")]))
    fields = {f.name: (str(f.type.type), f.nullable) for f in DeltaTable(str(lab.root)).schema().fields}
    assert fields == {
        "event": ("string", True),
        "time": ("timestamp", True),
        "time_local": ("timestamp_ntz", True),
        "day": ("date", True),
        "amount": ("double", True),
    }
    assert rows_of(lab.root) == ["a", "b", "c"]


def test_a_local_time_column_may_come_later(bare: Lab) -> None:
    schema = pa.schema([SCHEMA.field("event")])
    bare.make(schema).publish(MAY, ["a"], schema=schema)
    assert DeltaTable(str(bare.root)).protocol().min_reader_version == 1
    bare.publish(MAY + dt.timedelta(days=1), ["b"], schema=SCHEMA)
    assert rows_of(bare.root) == ["a", "b"]
    assert DeltaTable(str(bare.root)).protocol().writer_features == ["timestampNtz"]


def test_a_changed_type_and_a_frozen_schema_fail_with_the_column(lab: Lab) -> None:
    lab.publish(MAY, ["a"], schema=SCHEMA.append(pa.field("n", pa.int64())))
    before = lab.version
    changed = SCHEMA.append(pa.field("n", pa.string()))
    with pytest.raises(DataError, match=r"'n' is long in the table and string now"):
        lab.publish(MAY, ["b"], "t2", schema=changed)
    assert "'n' is long" in lab.preflight(changed)[0]
    frozen = DeltaSink(path=str(lab.root), schema_contract="freeze")
    assert "'m' is new" in frozen.open(KEY, {}).preflight(SCHEMA.append(pa.field("m", pa.int64())), (), "day")[0]
    assert "'Event'" in lab.preflight(SCHEMA.append(pa.field("Event", pa.string())))[0]
    assert lab.version == before


def test_preflight_makes_the_table_only_when_all_is_well(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t")
    bad = pa.schema([("a b", pa.string()), ("u", pa.uint64()), ("d", pa.duration("us")), ("x", pa.null())])
    (problem,) = lab.preflight(bad)
    assert all(f"'{name}'" in problem for name in ("a b", "u", "d", "x"))
    assert not lab.root.exists()
    assert lab.preflight() == []
    assert lab.version == 0
    assert lab.preflight() == []
    assert lab.version == 0
    (problem,) = lab.sink.open(StreamKey(connector="mixpanel", stream="other"), {}).preflight(SCHEMA, (), "day")
    assert "belongs to stream mixpanel/export" in problem
    missing = DeltaSink(path=str(tmp_path / "no" / "t"))
    assert str(tmp_path / "no") in missing.open(KEY, {}).preflight(SCHEMA, (), "day")[0]
    (tmp_path / "file").write_text("x")
    assert (
        str(tmp_path / "file")
        in DeltaSink(path=str(tmp_path / "file" / "t")).open(KEY, {}).preflight(SCHEMA, (), "day")[0]
    )


@pytest.mark.parametrize(
    ("partition", "properties", "says"),
    [
        ([], {}, "partitioned by"),
        (["event"], {}, "partitioned by"),
        (["day"], {"delta.appendOnly": "true"}, "appendOnly"),
        (["day"], {"delta.appendOnly": "TRUE"}, "appendOnly"),
        (["day"], {"delta.setTransactionRetentionDuration": "interval 1 days"}, "setTransactionRetentionDuration"),
        (["day"], {"delta.enableDeletionVectors": "true"}, "Delta features"),
    ],
)
def test_a_table_this_sink_cannot_write_is_refused(
    bare: Lab, partition: list[str], properties: dict[str, str | None], says: str
) -> None:
    DeltaTable.create(str(bare.root), SCHEMA, partition_by=partition, configuration=properties)
    problems = bare.preflight()
    assert any(says in problem for problem in problems)
    assert bare.version == 0
    with pytest.raises(ConfigError):
        bare.publish(MAY, ["a"])


def test_a_table_made_by_hand_needs_its_owner(tmp_path: Path) -> None:
    nullable = SCHEMA.set(0, pa.field("event", pa.string()))
    for owner, says in ((None, "does not belong"), ("other/stream", "other/stream"), (str(KEY), "")):
        lab = Lab(tmp_path / f"table-{str(owner)[:5]}")
        properties = {"connect.stream": owner} if owner else None
        DeltaTable.create(
            str(lab.root), nullable, partition_by=["day"], configuration=properties, raise_if_key_not_exists=False
        )
        if not says:
            assert lab.preflight() == []
            assert lab.publish(MAY, ["a"]).generation == 1
            continue
        with pytest.raises(ConfigError, match=says):
            lab.publish(MAY, ["a"])
        assert not len(lab.ledger.days())
    required = Lab(tmp_path / "required")
    DeltaTable.create(
        str(required.root),
        SCHEMA,
        partition_by=["day"],
        configuration={"connect.stream": str(KEY)},
        raise_if_key_not_exists=False,
    )
    assert "'event' is NOT NULL" in required.preflight()[0]


def test_a_stage_that_lost_a_file_is_polled_again(lab: Lab) -> None:
    publish = lab.stage(MAY, ["a"], "t1")
    file = lab.root / publish.manifest.polled.files[0].path
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RetriableError, match="another size"):
        lab.commit(publish)
    assert not (lab.root / attempt_folder(publish.manifest.attempt) / "manifest.json").exists()
    assert lab.ledger.row(MAY) is None


def test_duckdb_reads_days_types_and_added_columns(lab: Lab) -> None:
    lab.publish(MAY, ["a", "b"])
    lab.publish(MAY + dt.timedelta(days=1), ["c"], schema=SCHEMA.append(pa.field("n", pa.int64())))
    files = [path.removeprefix("file://") for path in DeltaTable(str(lab.root)).file_uris()]
    with duckdb.connect() as connection:
        found = connection.execute(
            "select day, count(*), count(n), min(time_local) from "
            "read_parquet(?, hive_partitioning = true, union_by_name = true) group by day order by day",
            [files],
        ).fetchall()
    noon = dt.datetime.combine(MAY, dt.time(12))
    assert found == [(MAY, 2, 0, noon), (MAY + dt.timedelta(days=1), 1, 0, noon + dt.timedelta(days=1))]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_a_folder_that_cannot_be_made_is_named() -> None:
    (problem,) = DeltaSink(path="/proc/table").open(KEY, {}).preflight(SCHEMA, (), "day")
    assert "/proc/table" in problem
