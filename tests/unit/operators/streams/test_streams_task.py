"""A task of many tables, whole but for Spark: each table is a stream with its own ledger, offset and failure."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from deltalake import DeltaTable

from airflow_provider_connect.clients.sql.database import ListedTable
from airflow_provider_connect.clients.sql.sqlite import SQLite
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.operators import lookback
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.operators.retry import TryAgainError
from airflow_provider_connect.sinks._delta.stream_ledger import DeltaLedger
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.source import StreamListing
from airflow_provider_connect.sources._sql import streams as sql_streams
from airflow_provider_connect.sources.sql import SqlSource
from airflow_provider_connect.spark import composition, streams
from tests.equipment.airflow.streams_task import StreamsTask
from tests.equipment.sql.shop_file import ShopFile


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShopFile:
    return ShopFile(tmp_path / "shop.db", monkeypatch)


@pytest.fixture
def lake(tmp_path: Path) -> StreamsTask:
    folder = tmp_path / "lake"
    folder.mkdir()
    return StreamsTask(folder)


def rows(lake: StreamsTask, name: str) -> list[int]:
    return sorted(DeltaTable(str(lake.folder / name)).to_pyarrow_table()["id"].to_pylist())


def statuses(report: Any) -> dict[str, list[tuple[str, int | None]]]:
    return {
        title: [(day["status"], day["generation"]) for day in stream["days"]]
        for title, stream in report["streams"].items()
    }


def test_each_table_is_a_stream_with_its_own_table_offset_and_event(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders", "customers", "audit_log")
    operator = lake.operator(["*", "!audit_*"])
    report = lake.run(operator)
    assert statuses(report) == {"main.customers": [("published", 1)], "main.orders": [("published", 1)]}
    assert report["rows_written"] == 6
    assert rows(lake, "orders") == rows(lake, "customers") == [1, 2, 3]
    assert lake.offsets() == {name: [["2026-10-05", "2026-10-05"]] for name in ("shop_db.customers", "shop_db.orders")}
    assert lake.event_uris(operator) == [f"file://{lake.folder}/{name}" for name in ("customers", "orders")]


def test_one_streams_failure_is_said_after_the_others_and_a_retry_does_the_rest(
    shop: ShopFile, lake: StreamsTask
) -> None:
    shop.make("customers", "orders", "stock")
    shop.run("UPDATE orders SET amount = 'many' WHERE id = 2")
    with pytest.raises(AirflowFailException) as caught:
        lake.run(lake.operator(["*"]))
    assert "1 of 3 streams failed:\nmain.orders: " in str(caught.value)
    assert "'amount'" in str(caught.value)
    assert rows(lake, "customers") == rows(lake, "stock") == [1, 2, 3]
    assert sorted(lake.offsets()) == ["shop_db.customers", "shop_db.orders", "shop_db.stock"]
    assert lake.offsets()["shop_db.orders"] == []
    ((key, pushed),) = lake.pushed
    assert (key, pushed["failed"], pushed["failure"]["type"]) == ("report", ["main.orders"], "DataError")

    shop.run("UPDATE orders SET amount = 20 WHERE id = 2", "INSERT INTO stock VALUES (4, 40)")
    retried = lake.run(lake.operator(["*"]), try_number=2)
    done = [("already_published", 1)]
    assert statuses(retried) == {"main.customers": done, "main.orders": [("published", 1)], "main.stock": done}
    assert rows(lake, "stock") == [1, 2, 3], "what was done was done again"


def test_a_failure_that_a_retry_may_repair_decides_how_the_task_ends(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.make("orders", "stock")
    shop.run("UPDATE orders SET amount = 'many' WHERE id = 2")

    def run_job(job: Any, *arguments: Any) -> Any:
        if job.source["table"] == "stock":
            raise RetriableError("the database restarts")
        return composition.run_job(job, *arguments)

    monkeypatch.setattr(streams, "run_job", run_job)
    with pytest.raises(TryAgainError, match="2 of 2 streams failed"):
        lake.run(lake.operator(["*"]))


def test_new_tables_appear_and_dropped_ones_are_said(
    shop: ShopFile, lake: StreamsTask, caplog: pytest.LogCaptureFixture
) -> None:
    shop.make("orders", "old")
    lake.run(lake.operator(["*"]))
    shop.run("DROP TABLE old")
    shop.make("new")
    report = lake.run(lake.operator(["*"]), day=6)
    assert list(report["streams"]) == ["main.new", "main.orders"]
    assert report["gone"] == ["main.old"]
    assert rows(lake, "old") == [1, 2, 3], "a dropped table's rows stay"
    left_out = lake.run(lake.operator(["*", "!old"]), day=7)
    assert left_out["gone"] == []


def test_a_named_table_that_is_missing_fails_alone(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders")
    with pytest.raises(AirflowFailException, match="1 of 2 streams failed:\nordes: there is no such table") as caught:
        lake.run(lake.operator(["orders", "ordes"]))
    assert "The database has main.orders" in str(caught.value)
    assert rows(lake, "orders") == [1, 2, 3]


def test_patterns_that_choose_nothing_start_no_spark(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders")
    with pytest.raises(AirflowFailException, match=r"tables: no table matches shop_\*. The database has main.orders"):
        lake.run(lake.operator(["shop_*"]))


@pytest.mark.parametrize("name", ["orders", "main.orders"])
def test_a_table_that_a_task_of_its_own_loaded_goes_on(shop: ShopFile, lake: StreamsTask, name: str) -> None:
    shop.make("orders", "stock")
    lake.run(lake.operator(name, path="orders"))
    lake.run(lake.operator(["*"]), day=6)
    assert lake.offsets()[f"shop_db.{name}"] == [["2026-10-05", "2026-10-06"]]
    assert len(lake.offsets()) == 2


def test_the_ledger_knows_the_streams_name_if_its_offset_was_deleted(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders")
    lake.run(lake.operator("main.orders", path="orders"))
    lake.variables.values.clear()
    lake.run(lake.operator(["*"]), day=6)
    assert lake.offsets() == {"shop_db.main.orders": [["2026-10-05", "2026-10-06"]]}


def test_a_stream_with_two_offsets_is_refused(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders", "stock")
    lake.run(lake.operator("orders", path="orders"))
    stale = lake.operator("main.orders", path="orders")
    text = next(iter(lake.variables.values.values()))
    key = next(iter(lake.variables.values)).replace("shop_db.orders", f"shop_db.{stale.source.stream_name}")
    lake.variables.values[key] = text
    with pytest.raises(AirflowFailException, match=r"main.orders: two offsets name .*airflow connect offsets reset"):
        lake.run(lake.operator(["*"]), day=6)
    assert rows(lake, "stock") == [1, 2, 3]


def test_schema_folders_are_made_below_the_named_folder(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders")
    lake.run(lake.operator(["*"], path="{schema}/{table}"))
    assert rows(lake, "main/orders") == [1, 2, 3]
    with pytest.raises(AirflowFailException, match=r"folder .*/lkae' does not exist"):
        lake.run(lake.operator(["*"], path="../lkae/{schema}/{table}"))


def test_a_name_that_cannot_be_a_stream_fails_alone(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders", "../../etc", "Größe")
    with pytest.raises(AirflowFailException, match="2 of 3 streams failed") as caught:
        lake.run(lake.operator(["*"]))
    assert "main.Größe: SqlSource: stream: the table's name cannot be part of ledger and offset" in str(caught.value)
    assert sorted(path.name for path in lake.folder.iterdir()) == ["orders"]


def test_a_retry_after_a_table_was_dropped_ends_well(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders", "stock")
    shop.run("UPDATE orders SET amount = 'many' WHERE id = 2")
    with pytest.raises(AirflowFailException):
        lake.run(lake.operator(["*"]))
    shop.run("DROP TABLE orders")
    report = lake.run(lake.operator(["*"]), try_number=2)
    assert statuses(report) == {"main.stock": [("already_published", 1)]}


def test_increments_of_each_table_follow_their_own_position(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders", "stock")
    options = {"mode": "incrementing", "incrementing_column": "id"}
    lake.run(lake.operator(["*"], **options))
    shop.run("INSERT INTO stock VALUES (4, 40)")
    report = lake.run(lake.operator(["*"], **options), day=6)
    assert [report["streams"][f"main.{name}"]["rows_written"] for name in ("orders", "stock")] == [0, 1]
    assert rows(lake, "stock") == [1, 2, 3, 4]


def test_days_with_a_lookback_load_each_tables_own_days(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "stock"):
        shop.run(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, at TIMESTAMP)")
    shop.run(
        "INSERT INTO orders VALUES (1, '2026-10-05 08:00:00'), (2, '2026-10-06 08:00:00')",
        "INSERT INTO stock VALUES (1, '2026-10-05 09:00:00')",
    )
    lake.run(lake.operator(["*"], day_column="at", lookback_days=1, origin="2026-10-05"))
    monkeypatch.setattr(lookback, "days_not_polled_since", lambda days, rows, moment: tuple(days))
    shop.run("INSERT INTO orders VALUES (3, '2026-10-05 23:00:00')")
    lake.run(lake.operator(["*"], day_column="at", lookback_days=1, origin="2026-10-05"), day=6)
    assert rows(lake, "orders") == [1, 2, 3]
    assert rows(lake, "stock") == [1]


def test_merges_and_soft_deletes_work_although_a_column_in_the_path_forbids_them(
    shop: ShopFile, lake: StreamsTask
) -> None:
    shop.make("orders")
    sink = DeltaSink(path=f"{lake.folder}/{{table}}", write_mode="merge", key=["id"])
    lake.run(lake.operator(["*"], sink=sink))
    assert rows(lake, "orders") == [1, 2, 3]
    with pytest.raises(ConfigError, match="a table for each value needs write_mode='replace'"):
        lake.operator("orders", sink=sink)


def test_two_runs_of_a_day_at_once_leave_each_table_whole(shop: ShopFile, lake: StreamsTask) -> None:
    names = ["orders", "stock", "customers"]
    shop.make(*names, rows=500)
    operators = [lake.operator(["*"]) for _ in range(2)]
    with lake.supervised(operators[0]), ThreadPoolExecutor(2) as pool:
        contexts = [lake.context(operator, run_id=f"run {number}") for number, operator in enumerate(operators)]
        reports = list(pool.map(lambda operator, context: operator.execute(context), operators, contexts))
    for name in names:
        assert rows(lake, name) == list(range(1, 501))
        generations = {report["streams"][f"main.{name}"]["days"][0]["generation"] for report in reports}
        assert generations <= {1, 2}
    assert set(map(str, lake.offsets().values())) == {"[['2026-10-05', '2026-10-05']]"}


def test_a_changed_option_is_refused_for_each_stream_that_has_days(shop: ShopFile, lake: StreamsTask) -> None:
    for name in ("orders", "stock"):
        shop.run(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, at TIMESTAMP, changed TIMESTAMP)")
    lake.run(lake.operator(["orders"], day_column="at"))
    with pytest.raises(AirflowFailException, match=r"1 of 2 streams failed:\nmain.orders: .*day_column was at"):
        lake.run(lake.operator(["*"], day_column="changed"), day=6)
    assert rows(lake, "stock") == []


@pytest.mark.parametrize(
    ("tables", "options", "message"),
    [
        (["*"], {"path": "orders"}, "has many tables, and path='.*/orders' of sink 'delta' has one target"),
        (["!audit_*"], {}, "tables: name at least one table to load"),
        (["a.b.c"], {}, "tables: 'a.b.c' is no table"),
        (["*"], {"stream": "all"}, "stream: with tables each table is a stream of its own"),
        (["*"], {"asset_events": "day"}, "asset_events='day' needs one asset"),
        ("orders", {"path": "orders", "parallel_streams": 8}, "parallel_streams: only tables uses it"),
        ("orders", {"path": "{schema}/{table}"}, "a column belongs in the last part of the path"),
    ],
)
def test_wrong_declarations_are_refused_in_the_dag_file(
    lake: StreamsTask, tables: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        lake.operator(tables, **options)


def test_offsets_of_streams_are_read_like_those_of_other_tasks(shop: ShopFile, lake: StreamsTask) -> None:
    shop.make("orders")
    operator = lake.operator(["*"])
    lake.run(operator)
    source = lake.operator("orders", path="orders").source
    with lake.supervised(operator):
        offset = Offset.read(source, DeltaSink(path=f"{lake.folder}/orders"))
    assert offset is not None
    assert str(offset.position) == "2026-10-05"


@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_mapped_task_of_many_tables_is_refused_in_the_dag_file(is_mapped: bool) -> None:
    source = SqlSource(conn_id="shop_db", tables=["*"], snapshot="replace")
    sink = DeltaSink(path="/lake/{table}")
    fixed, mapped = ({"sink": sink}, {"source": [source]}) if is_mapped else ({"source": source}, {"sink": [sink]})
    with DAG("mapped", schedule=None), pytest.raises(ConfigError, match="a mapped task cannot have a source of many"):
        ConnectOperator.partial(task_id="load", **fixed).expand(**mapped)


def listing_of(monkeypatch: pytest.MonkeyPatch, *tables: ListedTable) -> None:
    """Let the database list these tables."""
    listing = StreamListing([sql_streams.stream_of(table) for table in tables], {}, "main")
    monkeypatch.setattr(sql_streams, "list_streams", lambda options, connection: listing)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([("b.c", "a"), ("c", "a.b")], "a.b.c: 2 tables are called so"),
        ([("a.b", "main", True), ("b", "a")], "a.b: main.a.b and a.b would be one stream, shop_db.a.b"),
    ],
    ids=["one title", "one stream"],
)
def test_two_tables_that_dots_let_look_alike_are_refused(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch, tables: list[Any], message: str
) -> None:
    shop.make("orders")
    listed = [ListedTable(name, schema, is_default=bool(rest)) for name, schema, *rest in tables]
    listing_of(monkeypatch, *listed, ListedTable("orders", "main", is_default=True))
    with pytest.raises(AirflowFailException) as caught:
        lake.run(lake.operator(["*.*"], path="{schema}/{table}"))
    assert message in str(caught.value)
    assert rows(lake, "main/orders") == [1, 2, 3]


@pytest.mark.parametrize("name", ["{{ params }}", "a{#b#}"])
def test_a_name_that_looks_like_a_template_fails_alone(shop: ShopFile, lake: StreamsTask, name: str) -> None:
    shop.make("stock", name)
    with pytest.raises(AirflowFailException, match=r"1 of 2 streams failed:\nmain.* looks like a template") as caught:
        lake.run(lake.operator(["*"]))
    assert "main.stock" not in str(caught.value)
    assert rows(lake, "stock") == [1, 2, 3]


def test_options_that_the_driver_refuses_fail_one_stream(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.make("orders", "stock")
    from_options = SqlSource.from_options

    def refuse(options: dict[str, Any]) -> SqlSource:
        if options["table"] == "orders":
            raise ConfigError("refused")
        return from_options(options)

    operator = lake.operator(["*"])
    monkeypatch.setattr(SqlSource, "from_options", refuse)
    with pytest.raises(AirflowFailException, match=r"1 of 2 streams failed:\nmain.orders: refused"):
        lake.run(operator)


@pytest.mark.parametrize("is_lookback", [False, True])
def test_one_broken_target_does_not_keep_the_other_tables_from_loading(
    shop: ShopFile, lake: StreamsTask, is_lookback: bool
) -> None:
    for name in ("customers", "orders"):
        shop.run(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, at TIMESTAMP)")
        shop.run(f"INSERT INTO {name} VALUES (1, '2026-10-05 08:00:00')")
    log = lake.folder / "customers" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("nonsense")
    options = {"lookback_days": 1, "origin": "2026-10-01"} if is_lookback else {}
    with pytest.raises(TryAgainError, match=r"1 of 2 streams failed:\nmain.customers: "):
        lake.run(lake.operator(["*"], day_column="at", **options))
    assert rows(lake, "orders") == [1]


def test_a_sink_that_answers_no_stream_is_asked_twice(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.make(*[f"t{number}" for number in range(9)])
    asked = []

    def days(ledger: Any) -> Any:
        asked.append(ledger)
        raise RetriableError("the sink is away")

    monkeypatch.setattr(DeltaLedger, "days", days)
    with pytest.raises(TryAgainError, match="the sink is away"):
        lake.run(lake.operator(["*"]))
    assert len(asked) == 2


@pytest.mark.parametrize("path", ["{schema}/{table}", "{table}"])
@pytest.mark.parametrize("tables", [["*"], ["sales.*", "public.*"]])
def test_a_dropped_table_of_another_default_schema_is_said(
    shop: ShopFile, lake: StreamsTask, monkeypatch: pytest.MonkeyPatch, path: str, tables: list[str]
) -> None:
    shop.make("orders", "users")
    listed = [ListedTable("users", "public", is_default=True), ListedTable("orders", "sales", is_default=True)]
    monkeypatch.setattr(SQLite, "list_tables", lambda database: listed)
    lake.run(lake.operator(tables, path=path))
    listed.pop()
    report = lake.run(lake.operator(tables, path=path), day=6)
    assert [title.endswith(".orders") for title in report["gone"]] == [True]
    assert path == "{table}" or report["gone"] == ["sales.orders"]
