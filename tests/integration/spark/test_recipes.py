"""Each recipe of the page, run by a real task on real Spark: one day, or the days that its command names."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import http.server
import json
import shutil
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from airflow_provider_connect.clients.bigquery.api import BigQueryApi
from tests.equipment.sql.fixtures import OwnDatabase
from tests.equipment.sql.servers import PASSWORD, READER
from tests.standins.kafka_broker import KafkaBroker
from tests.standins.rest.events import Ledger
from tests.standins.rest.server import StandIn
from tests.unit.operators.conftest import Supervisor, dag_run, supervisor, task_instance  # noqa: F401  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("supervisor")]

DAGS = Path(__file__).parents[3] / "dags"
DAY = dt.date(2026, 10, 5)
KEY = "0123456789abcdef"
SHOP = (
    "CREATE TABLE orders (id integer PRIMARY KEY, created_at timestamp NOT NULL, cents integer)",
    "CREATE TABLE customers (id integer PRIMARY KEY, email text)",
)


class Recipe:
    """The tasks of one recipe, whose file is copied so that it writes into the test's folder."""

    def __init__(self, path: Path, folder: Path, replaced: dict[str, str]) -> None:
        text = path.read_text(encoding="utf-8")
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        copied = folder / "dags" / path.relative_to(DAGS)
        copied.parent.mkdir(parents=True)
        copied.write_text(text)
        self.dag_file = copied
        if path.suffix == ".yaml":
            self.dag_file = Path(shutil.copy(DAGS / "pipelines.py", folder / "dags"))
        self.xcoms: dict[str, Any] = {}

    @property
    def dag(self) -> Any:
        """The DAG as a new process reads it, since a task starts only once in a process."""
        bag = DagBag(dag_folder=self.dag_file)
        assert bag.import_errors == {}
        (dag,) = bag.dags.values()
        return dag

    def run(self, task_id: str, params: dict[str, str] | None = None, **run: Any) -> dict[str, Any]:
        """Run a task for 2026-10-05, or as its parameters say; return the report.

        :param run: other fields of the run.
        """
        task, self.context = self.dag.get_task(task_id), self._context(task_id, params or {}, run)
        task.render_template_fields(self.context)
        return dict(task.execute(self.context))

    def _context(self, task_id: str, params: dict[str, str], fields: dict[str, Any]) -> Any:
        dag = self.dag
        ti = task_instance(
            dag_id=dag.dag_id,
            task_id=task_id,
            log_url="http://airflow/log",
            xcom_push=self.xcoms.__setitem__,
            xcom_pull=lambda *, key: self.xcoms.get(key),
        )
        run = dag_run(dag_id=dag.dag_id, **({"run_type": "manual"} if params else {}) | fields)
        return {"dag": dag, "dag_run": run, "ti": ti, "outlet_events": OutletEventAccessors(), "params": params}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets an Airflow connection; Spark's is set."""

    def set_connection(conn_id: str, **fields: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    set_connection("spark_default", conn_type="spark", host="local[1]")
    return set_connection


@pytest.fixture
def shop(tmp_path: Path, connect: Any) -> Path:
    """An SQLite shop with three orders on each day of a week, and two customers."""
    path = tmp_path / "shop.db"
    days = [DAY + dt.timedelta(days=number) for number in range(-6, 1)]
    orders = [(3 * at + hour, f"{day} 0{hour}:00:00", 100 * hour) for at, day in enumerate(days) for hour in range(3)]
    with closing(sqlite3.connect(path)) as database, database:
        for statement in SHOP:
            database.execute(statement)
        database.executemany("INSERT INTO orders VALUES (?, ?, ?)", orders)
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(1, "ann@example.com"), (2, None)])
    connect("shop_db", conn_type="sqlite", host=str(path))
    return path


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    return list(DeltaTable(folder / table).to_pyarrow_table().to_pylist())


def recipe(name: str, folder: Path, **replaced: str) -> Recipe:
    return Recipe(DAGS / "recipes" / f"{name}.py", folder, replaced or {"/data/lake": str(folder)})


def test_hourly_orders(tmp_path: Path, connect: Any) -> None:
    """Three orders, two more in the same day's next hour; a clear of the first hour after the second."""
    path = tmp_path / "shop.db"
    connect("shop_db", conn_type="sqlite", host=str(path))

    def execute(*statements: str) -> None:
        with closing(sqlite3.connect(path)) as database, database:
            for statement in statements:
                database.execute(statement)

    def hour(number: int, **fields: Any) -> dict[str, Any]:
        start = dt.datetime(2026, 10, 5, number, tzinfo=dt.UTC)
        interval = {"data_interval_start": start, "data_interval_end": start + dt.timedelta(hours=1)}
        run = {"run_id": f"scheduled__{start + dt.timedelta(hours=1)}", "logical_date": start} | interval | fields
        (day,) = loaded.run("orders", **run)["days"]
        return {name: day[name] for name in ("day", "status", "generation", "rows_written")}

    def ids() -> list[tuple[int, int]]:
        return sorted((row["id"], row["cents"]) for row in rows(tmp_path, "orders"))

    loaded = recipe("hourly_orders", tmp_path)
    execute(SHOP[0], *(f"INSERT INTO orders VALUES ({number}, '{DAY} 07:30:00', 1)" for number in (1, 2, 3)))
    published = {"day": str(DAY), "status": "published", "generation": 1}
    assert hour(7) == published | {"rows_written": 3}
    execute(*(f"INSERT INTO orders VALUES ({number}, '{DAY} 08:30:00', 1)" for number in (4, 5)))
    assert hour(8) == published | {"rows_written": 2}
    assert ids() == [(number, 1) for number in (1, 2, 3, 4, 5)]
    assert hour(8) == published | {"status": "already_published", "rows_written": 2}

    execute("UPDATE orders SET cents = 2")
    assert hour(7, clear_number=1) == published | {"generation": 2, "rows_written": 3}
    assert ids() == [(1, 2), (2, 2), (3, 2), (4, 1), (5, 1)]
    assert hour(9) == published | {"rows_written": 0}


def test_topic_to_delta(tmp_path: Path, connect: Any, broker: KafkaBroker) -> None:
    """Two hours of a topic with the recipe's name. A run between them finds nothing."""
    connect("kafka_default", conn_type="kafka", extra=json.dumps(broker.connection_extra))
    settings = {"bootstrap.servers": broker.bootstrap}
    admin, producer = AdminClient(settings), Producer(settings)
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(30)

    def write(*ids: int) -> None:
        for number in ids:
            producer.produce("orders", json.dumps({"id": number, "amount": number / 4}).encode(), str(number))
        assert producer.flush(30) == 0

    def hour(number: int) -> int:
        start = dt.datetime(2026, 10, 5, number, tzinfo=dt.UTC)
        interval = {"data_interval_start": start, "data_interval_end": start + dt.timedelta(hours=1)}
        run = {"run_id": f"scheduled__{start + dt.timedelta(hours=1)}", "logical_date": start} | interval
        (day,) = loaded.run("orders", **run)["days"]
        return int(day["rows_written"])

    try:
        loaded = recipe("topic_to_delta", tmp_path)
        write(1, 2, 3)
        assert hour(7) == 3
        assert hour(8) == 0
        write(4, 5)
        assert hour(9) == 2
    finally:
        admin.delete_topics(["orders"])["orders"].result(30)
    assert sorted((row["id"], str(row["amount"])) for row in rows(tmp_path, "orders")) == [
        (1, "0.25"),
        (2, "0.50"),
        (3, "0.75"),
        (4, "1.00"),
        (5, "1.25"),
    ]


def connect_to(connect: Any, postgresql: OwnDatabase) -> None:
    """Set the shop's connection to a PostgreSQL database."""
    place = postgresql.connection()
    connect(
        "shop_db",
        conn_type="postgres",
        host=place.host,
        port=place.port,
        schema=postgresql.name,
        login=READER,
        password=PASSWORD,
    )


def test_postgresql_to_bigquery(
    tmp_path: Path, connect: Any, postgresql: OwnDatabase, emulator: Any, dataset: str, google_connection: Any
) -> None:
    values = ", ".join(f"({number}, '{DAY} 0{number}:00:00', {number})" for number in range(5))
    postgresql.run(SHOP[0], f"INSERT INTO orders VALUES {values}, (9, '{DAY - dt.timedelta(days=1)}', 9)")
    connect_to(connect, postgresql)
    connect("google_cloud_default", conn_type="google_cloud_platform", extra=emulator.connection_extra)
    loaded = recipe("postgresql_to_bigquery", tmp_path, **{"shop.orders": f"{dataset}.orders"})
    (day,) = loaded.run("orders")["days"]
    assert (day["status"], day["rows_written"]) == ("published", 5)
    with BigQueryApi.open(google_connection) as api:
        sql = f"SELECT id, cents, CAST(day AS STRING) AS day FROM {dataset}.orders ORDER BY id"
        table = api.query(sql, action="reading", labels={"connect": "test"})[0]
    assert [tuple(row.values()) for row in table] == [(number, number, str(DAY)) for number in range(5)]


def test_stripe_to_delta(tmp_path: Path, connect: Any) -> None:
    served = Ledger(events_per_day=250)
    with StandIn(served, key="key", busy_every=2) as api:
        connect(
            "stripe",
            conn_type="http",
            host="http://127.0.0.1",
            port=api.port,
            password="key",
            extra={"auth": "bearer"},
        )
        loaded = Recipe(
            DAGS / "pipelines" / "stripe_events.yaml", tmp_path, {"/tmp/stripe_events_of_a_file": f"{tmp_path}/stripe"}
        )
        loaded.run("load")
    assert Counter(row["id"] for row in rows(tmp_path, "stripe")) == Counter(
        event["id"] for event in served.events_of_day(DAY)
    )


@pytest.mark.usefixtures("shop")
def test_fifty_tables(tmp_path: Path) -> None:
    loaded = recipe("fifty_tables", tmp_path)
    report = loaded.run("tables")
    assert "main.customers" in report["streams"]
    assert report["failed"] == []
    assert [row["id"] for row in rows(tmp_path, "customers")] == [1, 2]


@pytest.mark.usefixtures("shop")
def test_a_range_beside_the_live_load(tmp_path: Path) -> None:
    loaded = recipe("orders_with_history", tmp_path)
    (live,) = loaded.run("orders")["days"]
    report = loaded.run("orders", {"days": "2026-09-29..2026-10-04"})
    assert (live["day"], [day["status"] for day in report["days"]]) == (str(DAY), ["published"] * 6)
    assert sorted(row["id"] for row in rows(tmp_path, "orders")) == list(range(21))


def test_changed_rows_are_merged_by_key(tmp_path: Path, connect: Any, postgresql: OwnDatabase) -> None:
    values = ", ".join(f"({number}, '{DAY} 0{number}:00:00', {number})" for number in range(5))
    postgresql.run(
        SHOP[0].replace("created_at timestamp", "changed_at timestamptz"), f"INSERT INTO orders VALUES {values}"
    )
    connect_to(connect, postgresql)
    loaded = recipe("orders_by_key", tmp_path)
    loaded.run("orders")
    postgresql.run("UPDATE orders SET cents = 7, changed_at = now() - interval '1 minute' WHERE id = 4")
    loaded.run("orders", {"days": "2026-10-06"})
    assert sorted((row["id"], row["cents"]) for row in rows(tmp_path, "orders")) == [
        *((i, i) for i in range(4)),
        (4, 7),
    ]


@pytest.mark.usefixtures("shop")
def test_a_masked_address(tmp_path: Path, connect: Any) -> None:
    connect("mask_key", conn_type="generic", password=KEY)
    recipe("mask_email", tmp_path).run("customers")
    hashed = hmac.new(KEY.encode(), b"ann@example.com", hashlib.sha256).hexdigest()
    assert [row["email"] for row in rows(tmp_path, "customers")] == [hashed, None]
    assert not [path for path in (tmp_path / "customers").rglob("*") if path.is_file() and b"ann@" in path.read_bytes()]


@contextmanager
def webhook() -> Iterator[tuple[str, list[Any]]]:
    """Yield the URL of a server that takes Slack's messages, and the messages."""
    messages: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/services/T0", messages
        server.shutdown()


@pytest.mark.usefixtures("supervisor")
def test_an_alert(tmp_path: Path, connect: Any, shop: Path) -> None:
    """Airflow calls the callback after the last try, with the context of the task and the exception."""
    with closing(sqlite3.connect(shop)) as database, database:
        database.execute("DELETE FROM orders WHERE created_at >= ?", (str(DAY),))
    loaded = recipe("alert_to_slack", tmp_path)
    with pytest.raises(AirflowFailException) as error:
        loaded.run("orders")
    (callback,) = loaded.dag.get_task("orders").on_failure_callback
    with webhook() as (url, messages):
        connect("slack", conn_type="generic", password=url)
        callback(loaded.context | {"exception": error.value})
        loaded.xcoms.clear()
        callback(loaded.context | {"exception": RuntimeError("<no report>")})
    first, second = (message["text"].splitlines() for message in messages)
    failure = "DataError: day 2026-10-05: the source answered without a row"
    assert first[0].startswith(f"alert_to_slack.orders has failed: {failure}")
    assert first[1:] == ["2026-10-05 failed", "http://airflow/log"]
    assert second == ["alert_to_slack.orders has failed: &lt;no report&gt;", "http://airflow/log"]
