"""Sources as Spark data sources: one real session, rows against what the stand-in served, secrets against the plan."""

from __future__ import annotations

import datetime as dt
import json
from types import SimpleNamespace

import pytest

from airflow_provider_connect import registry
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.submit import launch
from tests.standins.mixpanel.events import Project
from tests.standins.mixpanel.faults import Fault
from tests.standins.mixpanel.server import StandIn

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05", "2026-10-06"]
PROJECT = Project(seed=3, events_per_day=2000, duplicates_per_day=50, missing_ids_per_day=5)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A session with the sources registered, a stand-in, and its connection as variable and as file."""
    tmp = tmp_path_factory.mktemp("notebook")
    (tmp / "events").mkdir()
    with (
        pytest.MonkeyPatch.context() as patch,
        StandIn(PROJECT, now=lambda: dt.datetime(2026, 11, 20, tzinfo=dt.UTC)) as standin,
    ):
        connection = tmp / "mixpanel.json"
        connection.touch(mode=0o600)
        connection.write_text(airflow_json(standin))
        patch.setenv("AIRFLOW_CONN_MIXPANEL_DEFAULT", airflow_json(standin))
        patch.setenv("JAVA_HOME", str(launch.java_home(tmp)))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", str(launch.python_without_zips(tmp)))
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        settings = (
            launch.REQUIRED_CONF
            | launch.LOCAL_CONF
            | {
                "spark.driver.extraJavaOptions": launch.FAST_JVM,
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": f"file://{tmp}/events",
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
                "spark.sql.warehouse.dir": f"file://{tmp}/warehouse",
                "spark.sql.session.timeZone": "UTC",
            }
        )
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            from airflow_provider_connect.spark.datasource import register

            names = register(spark)
            yield SimpleNamespace(
                spark=spark, names=names, standin=standin, connection=connection, events=tmp / "events"
            )
        finally:
            spark.stop()
            gateway = spark.sparkContext._gateway
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)
            type(spark.sparkContext)._gateway = type(spark.sparkContext)._jvm = None


def airflow_json(standin, **changes):
    account = standin.account
    fields = {
        "conn_type": "mixpanel",
        "host": "http://127.0.0.1",
        "port": standin.port,
        "login": account.username,
        "password": account.secret,
        "schema": "",
        "description": "for tests",
        "extra": {"project_id": str(account.project_id)},
    }
    return json.dumps(fields | changes)


def read(notebook, **options):
    reader = notebook.spark.read.format("mixpanel")
    for name, value in {"days": f"{DAYS[0]}..{DAYS[1]}", **options}.items():
        reader = reader.option(name, value)
    return reader.load()


def found(frame):
    rows = frame.select("day", "event", "properties").collect()
    days = {}
    for row in rows:
        days.setdefault(str(row.day), []).append(json.dumps([row.event, json.loads(row.properties)], sort_keys=True))
    return {day: sorted(texts) for day, texts in days.items()}


def served(days):
    return {
        day: sorted(
            json.dumps([row["event"], row["properties"]], sort_keys=True)
            for row in PROJECT.expected_rows(dt.date.fromisoformat(day))
        )
        for day in days
    }


def test_every_source_is_registered(notebook):
    assert notebook.names == [{"kafka": "connect_kafka"}.get(name, name) for name in registry.names("sources")]
    assert "mixpanel" in notebook.names


def test_every_row_of_every_day_arrives_with_the_columns_of_the_source(notebook):
    source = MixpanelSource(promote={"$browser": "string"})
    frame = read(notebook, config=source.model_dump_json())
    assert found(frame) == served(DAYS)
    assert frame.columns == [*source.open(Connection(conn_id="m"), PollContext()).schema().names, "day"]
    types = dict(frame.dtypes)
    assert (types["time"], types["time_local"], types["day"]) == ("timestamp", "timestamp_ntz", "date")
    assert frame.rdd.getNumPartitions() == len(DAYS)
    first, last = frame.selectExpr("min(time)", "max(time)").collect()[0]
    assert dt.datetime(2026, 10, 5) <= first < last < dt.datetime(2026, 10, 7)  # noqa: DTZ001  # as Spark hands it out


def test_the_connection_may_be_a_private_file(notebook):
    assert read(notebook, days=DAYS[0], connection=str(notebook.connection)).count() == 2000


def test_a_file_that_others_can_read_is_refused(notebook, tmp_path):
    shared = tmp_path / "shared.json"
    shared.write_text(airflow_json(notebook.standin))
    shared.chmod(0o640)
    assert "ConfigError: connection file" in refusal(lambda: read(notebook, connection=str(shared)).count())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"day": "2026-10-05"}, "ConfigError: mixpanel: unknown option day"),
        ({"config": '{"conn": 1}'}, "conn: unknown option; did you mean 'conn_id'?"),
        ({"config": "conn_id=x"}, "option 'config' is not a JSON object"),
        ({"days": "yesterday"}, "ConfigError: days='yesterday'"),
        ({"connection": "NO_SUCH_VARIABLE"}, "ConfigError: environment variable NO_SUCH_VARIABLE is not set"),
    ],
)
def test_errors_in_a_notebook_name_their_class(notebook, options, text):
    assert text in refusal(lambda: read(notebook, **options).count())


def test_a_connection_given_by_value_is_not_repeated(notebook):
    value = airflow_json(notebook.standin, password="by-value-c4nary")
    assert "not to the connection itself" in (said := refusal(lambda: read(notebook, connection=value).count()))
    assert "by-value-c4nary" not in said


def test_an_executor_s_error_names_its_class_and_no_secret(notebook, tmp_path):
    wrong = tmp_path / "wrong.json"
    wrong.touch(mode=0o600)
    wrong.write_text(airflow_json(notebook.standin, password="wr0ng-c4nary"))
    said = refusal(lambda: read(notebook, connection=str(wrong)).count())
    assert "ConfigError: " in said
    assert "401" in said
    assert "wr0ng-c4nary" not in said


def test_a_cut_answer_fails_the_action(notebook):
    notebook.standin.faults.replace([Fault.from_json({"kind": "cut_gzip", "date": DAYS[0], "times": 99})])
    try:
        assert "RetriableError: " in refusal(lambda: read(notebook).count())
    finally:
        notebook.standin.faults.replace([])


def test_the_secret_is_in_no_plan_and_no_event_log(notebook, capfd):
    frame = read(notebook)
    frame.createOrReplaceTempView("events")
    assert frame.count() == 4000
    for mode in ("extended", "formatted", "codegen", "cost"):
        frame.explain(mode)
    plans = capfd.readouterr()
    assert "mixpanel" in plans.out
    secret = notebook.standin.account.secret
    assert secret not in plans.out + plans.err
    assert secret not in frame._jdf.queryExecution().toString()
    logs = list(notebook.events.iterdir())
    assert logs, "Spark wrote no event log"
    for path in logs:
        text = path.read_bytes()
        assert b"SparkListenerSQLExecutionStart" in text
        assert secret.encode() not in text


def refusal(action):
    with pytest.raises(Exception) as caught:  # noqa: PT011  # pyspark's class depends on where it happened
        action()
    return str(caught.value)
