from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_connect.errors import ConfigError, DataError, RetriableError, SupersededError
from airflow_provider_connect.registry import sink_class
from airflow_provider_connect.sink import Intent, LedgerRow, Publish, StreamKey
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.stage import Manifest, Polled, StagedFile, attempt_folder, data_file
from airflow_provider_connect.window import Day

KEY = StreamKey(connector="mixpanel", stream="export")
SCHEMA = pa.schema(
    [
        pa.field("event", pa.string(), nullable=False, metadata={"comment": "what happened"}),
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("time_local", pa.timestamp("us")),
        pa.field("day", pa.date32()),
    ]
)
MAY = dt.date(2026, 5, 1)


def staged(
    root: Path, date: dt.date, rows: list[str], token: str, order: int, *, schema: pa.Schema = SCHEMA, attempt: str = ""
) -> Publish:
    """Write what the stage writes, and return its publish; no rows make no file."""
    day, attempt = Day(date=date), attempt or f"{token}-{date}"
    files: tuple[StagedFile, ...] = ()
    columns = [field for field in schema if field.name != "day"]
    if rows:
        noon = dt.datetime.combine(date, dt.time(12))
        values: dict[str, Any] = {"event": rows, "time": [noon.replace(tzinfo=dt.UTC)] * len(rows)}
        values |= {"time_local": [noon] * len(rows)}
        arrays = [pa.array(values.get(c.name, [None] * len(rows)), type=c.type) for c in columns]
        path = data_file(day, attempt, 0, "0")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(arrays, schema=pa.schema(columns)), root / path)
        stats = {"minValues": {"event": min(rows)}, "maxValues": {"event": max(rows)}, "nullCount": {"event": 0}}
        files = (StagedFile(path=path, rows=len(rows), size_bytes=(root / path).stat().st_size, stats=stats),)
    polled = Polled(files=files, rows_read=len(rows), rows_written=len(rows), digest=f"{len(rows):032x}")
    manifest = Manifest(day=day, attempt=attempt, fingerprint="f", polled=polled)
    folder = root / attempt_folder(attempt)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "progress-0.json").write_text("{}")
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    intent = Intent(token=token, order=order, run="dag/run/task")
    return Publish(key=KEY, day=day, intent=intent, manifest=manifest, stage=str(root), labels={"dag": "dag"})


def rows_of(path: Path, date: dt.date | None = None) -> list[str]:
    """Read the table's events as any reader of Delta would: the files of its newest version."""
    table = DeltaTable(str(path))
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = [path / a["path"] for a in actions if date is None or a["partition.day"] == date]
    return sorted(event for file in files for event in pq.ParquetFile(file).read(["event"])["event"].to_pylist())


class Lab:
    """One table and its sink."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.sink = DeltaSink(path=str(root), **options)

    def publish(self, date: dt.date, rows: list[str], token: str = "t1", order: int = 1, **more: Any) -> LedgerRow:
        schema = more.get("schema", SCHEMA)
        return self.commit(staged(self.root, date, rows, token, order, **more), schema)

    def commit(self, publish: Publish, schema: pa.Schema = SCHEMA) -> LedgerRow:
        return self.sink.commit(publish, schema, None, [], {})

    @property
    def ledger(self) -> Any:
        return self.sink.ledger(KEY, {})

    @property
    def version(self) -> int:
        return DeltaTable(str(self.root)).version()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "table")


def test_options_are_checked_and_survive_json() -> None:
    assert sink_class("delta") is DeltaSink
    sink = DeltaSink(path="file:///data/my%20lake/", sweep_after=dt.timedelta(hours=5))
    assert (sink.target, sink.asset_uri) == ("/data/my lake", "file:///data/my%20lake")
    assert DeltaSink.of(json.loads(sink.model_dump_json())) == sink
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
    second = lab.publish(MAY, ["c"], "t2", 2)
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
    lab.publish(MAY, ["b"], "t2", 2)
    assert lab.publish(MAY, ["a"]) == first, "known, though a newer generation followed"
    assert rows_of(lab.root) == ["b"]


def test_an_older_intent_is_refused_and_an_equal_one_is_not(lab: Lab) -> None:
    lab.publish(MAY, ["new"], "t2", 20)
    with pytest.raises(SupersededError, match="generation 1"):
        lab.publish(MAY, ["old"], "t1", 10)
    assert rows_of(lab.root) == ["new"]
    assert lab.publish(MAY, ["twin"], "t3", 20).generation == 2


def test_an_empty_day_is_done_and_an_emptied_day_is_empty(lab: Lab) -> None:
    assert lab.publish(MAY, []).rows == 0
    assert list(lab.ledger.days()) == [MAY]
    lab.publish(MAY, ["a"], "t2", 2)
    assert lab.publish(MAY, [], "t3", 3).generation == 3
    assert rows_of(lab.root) == []
    assert list(lab.ledger.days()) == [MAY]


def test_the_ledger_outlives_the_log(lab: Lab) -> None:
    days = [MAY + dt.timedelta(days=i) for i in range(6)]
    for i, date in enumerate(days):
        lab.publish(date, ["x"] * (i % 3), f"t{i}", 7)  # the 1st and 4th day are empty
    table = DeltaTable(str(lab.root))
    table.create_checkpoint()
    last = f"{table.version():020}.json"
    for log in (lab.root / "_delta_log").glob("*.json"):
        if log.name != last:
            log.unlink()
    assert list(lab.ledger.days()) == days
    row = lab.ledger.row(days[2])
    assert (row.generation, row.order, row.rows, row.token) == (1, 7, 2, "")
    assert lab.ledger.published(days[2], "t2").generation == 1
    assert lab.publish(days[2], ["again"], "t2", 7).rows == 2, "a known token stays known"
    with pytest.raises(SupersededError):
        lab.publish(days[2], ["old"], "t0", 1)


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


def test_a_local_time_column_may_come_later(lab: Lab) -> None:
    lab.publish(MAY, ["a"], schema=pa.schema([SCHEMA.field("event")]))
    assert DeltaTable(str(lab.root)).protocol().min_reader_version == 1
    lab.publish(MAY + dt.timedelta(days=1), ["b"], schema=SCHEMA)
    assert rows_of(lab.root) == ["a", "b"]
    assert DeltaTable(str(lab.root)).protocol().writer_features == ["timestampNtz"]


def test_a_changed_type_and_a_frozen_schema_fail_with_the_column(lab: Lab) -> None:
    lab.publish(MAY, ["a"], schema=SCHEMA.append(pa.field("n", pa.int64())))
    before = lab.version
    changed = SCHEMA.append(pa.field("n", pa.string()))
    with pytest.raises(DataError, match=r"'n' is long in the table and string now"):
        lab.publish(MAY, ["b"], "t2", 2, schema=changed)
    assert "'n' is long" in lab.sink.preflight(changed, KEY, (), {})[0]
    frozen = DeltaSink(path=str(lab.root), schema_contract="freeze")
    assert "'m' is new" in frozen.preflight(SCHEMA.append(pa.field("m", pa.int64())), KEY, (), {})[0]
    assert "'Event'" in lab.sink.preflight(SCHEMA.append(pa.field("Event", pa.string())), KEY, (), {})[0]
    assert lab.version == before


def test_preflight_makes_the_table_only_when_all_is_well(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "t")
    bad = pa.schema([("a b", pa.string()), ("u", pa.uint64()), ("d", pa.duration("us")), ("x", pa.null())])
    (problem,) = lab.sink.preflight(bad, KEY, (), {})
    assert all(f"'{name}'" in problem for name in ("a b", "u", "d", "x"))
    assert not lab.root.exists()
    assert lab.sink.preflight(SCHEMA, KEY, (), {}) == []
    assert lab.version == 0
    assert lab.sink.preflight(SCHEMA, KEY, (), {}) == []
    assert lab.version == 0
    (problem,) = lab.sink.preflight(SCHEMA, StreamKey(connector="mixpanel", stream="other"), (), {})
    assert "belongs to stream mixpanel/export" in problem
    missing = DeltaSink(path=str(tmp_path / "no" / "t"))
    assert str(tmp_path / "no") in missing.preflight(SCHEMA, KEY, (), {})[0]
    (tmp_path / "file").write_text("x")
    assert str(tmp_path / "file") in DeltaSink(path=str(tmp_path / "file" / "t")).preflight(SCHEMA, KEY, (), {})[0]


@pytest.mark.parametrize(
    ("partition", "properties", "says"),
    [
        ([], {}, "partitioned by"),
        (["event"], {}, "partitioned by"),
        (["day"], {"delta.appendOnly": "true"}, "appendOnly"),
        (["day"], {"delta.setTransactionRetentionDuration": "interval 1 days"}, "setTransactionRetentionDuration"),
        (["day"], {"delta.enableDeletionVectors": "true"}, "Delta features"),
    ],
)
def test_a_table_this_sink_cannot_write_is_refused(
    lab: Lab, partition: list[str], properties: dict[str, str | None], says: str
) -> None:
    DeltaTable.create(str(lab.root), SCHEMA, partition_by=partition, configuration=properties)
    problems = lab.sink.preflight(SCHEMA, KEY, (), {})
    assert any(says in problem for problem in problems)
    assert lab.version == 0
    with pytest.raises(ConfigError):
        lab.publish(MAY, ["a"])


def test_a_table_made_by_hand_needs_its_owner(tmp_path: Path) -> None:
    nullable = SCHEMA.set(0, pa.field("event", pa.string()))
    for owner, says in ((None, "does not belong"), ("other/stream", "other/stream"), (str(KEY), "")):
        lab = Lab(tmp_path / f"table-{str(owner)[:5]}")
        properties = {"connect.stream": owner} if owner else None
        DeltaTable.create(
            str(lab.root), nullable, partition_by=["day"], configuration=properties, raise_if_key_not_exists=False
        )
        if not says:
            assert lab.sink.preflight(SCHEMA, KEY, (), {}) == []
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
    assert "'event' is NOT NULL" in required.sink.preflight(SCHEMA, KEY, (), {})[0]


def test_a_stage_that_lost_a_file_is_polled_again(lab: Lab) -> None:
    publish = staged(lab.root, MAY, ["a"], "t1", 1)
    file = lab.root / publish.manifest.polled.files[0].path
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RetriableError, match="another size"):
        lab.commit(publish)
    assert not (lab.root / attempt_folder(publish.manifest.attempt) / "manifest.json").exists()
    assert lab.ledger.row(MAY) is None


def test_a_table_that_cannot_be_read_is_not_an_empty_one(lab: Lab) -> None:
    lab.publish(MAY, ["a"])
    newest = lab.root / "_delta_log" / f"{lab.version:020}.json"
    newest.write_text('{"cut')
    with pytest.raises(RetriableError, match=str(lab.root)):
        lab.ledger.days()


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


def test_sweep_deletes_the_dead_and_keeps_the_published(lab: Lab) -> None:
    published = staged(lab.root, MAY, ["a"], "t1", 1)
    control = lab.root / attempt_folder(published.manifest.attempt)
    (control / "rejects-0.parquet").write_bytes(b"r")
    failed_try = lab.root / data_file(Day(date=MAY), published.manifest.attempt, 0, "9")
    failed_try.write_bytes(b"half")
    lab.commit(published)
    lab.publish(MAY, ["b"], "t2", 2)
    empty = lab.publish(MAY + dt.timedelta(days=1), [], "t2", 2)
    dead = staged(lab.root, MAY, ["dead"], "t3", 3)
    no_manifest = lab.root / attempt_folder("t4-x") / "progress-0.json"
    no_manifest.parent.mkdir()
    no_manifest.write_text("{}")
    foreign = lab.root / f"day={MAY}" / "part-0.parquet"
    foreign.write_bytes(b"f")
    assert lab.sink.sweep(KEY, {}) == 0, "nothing is old yet"
    _age(lab.root)
    alive = staged(lab.root, MAY, ["alive"], "t5", 5)
    assert lab.sink.sweep(KEY, {}) == 11
    assert rows_of(lab.root) == ["b"]
    assert (lab.root / published.manifest.polled.files[0].path).exists(), "replaced, but published once"
    assert {p.name for p in control.iterdir()} == {"rejects-0.parquet", "manifest.json", "published.json"}
    assert not failed_try.exists()
    assert not (lab.root / dead.manifest.polled.files[0].path).exists()
    assert not (lab.root / attempt_folder(dead.manifest.attempt)).exists()
    assert not no_manifest.parent.exists()
    assert foreign.exists()
    assert (lab.root / attempt_folder(f"t2-{empty.day}") / "manifest.json").exists()
    _age(lab.root / attempt_folder(published.manifest.attempt))
    assert lab.sink.sweep(KEY, {}) == 0, "settled attempts are left alone"
    assert lab.commit(alive).generation == 3
    with pytest.raises(RetriableError, match="missing"):
        lab.commit(dead.model_copy(update={"intent": Intent(token="t9", order=9, run="r")}))


def test_a_sweep_leaves_an_attempt_that_is_being_published(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_connect.sinks._delta_sweep import Sweeper

    lab.publish(MAY, ["a"])
    publish = staged(lab.root, MAY, ["late"], "t2", 2)
    _age(lab.root)
    look = Sweeper._silent_attempts

    def look_then_commit(sweeper: Sweeper) -> list[str]:
        found = look(sweeper)
        (lab.root / attempt_folder(publish.manifest.attempt) / "publishing.json").write_text("{}")
        return found

    monkeypatch.setattr(Sweeper, "_silent_attempts", look_then_commit)
    lab.sink.sweep(KEY, {})
    assert lab.commit(publish).generation == 2
    assert rows_of(lab.root) == ["late"]


def test_the_days_of_ten_years_are_read_quickly(lab: Lab) -> None:
    from deltalake import CommitProperties, Transaction
    from deltalake.transaction import AddAction

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


def _age(folder: Path) -> None:
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).timestamp()
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_a_folder_that_cannot_be_made_is_named() -> None:
    (problem,) = DeltaSink(path="/proc/table").preflight(SCHEMA, KEY, (), {})
    assert "/proc/table" in problem
