from __future__ import annotations

import datetime as dt
import json
import logging
import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_connect.completeness import RowBounds
from airflow_provider_connect.errors import ConfigError, RetriableError
from airflow_provider_connect.job import SealedConnections
from airflow_provider_connect.offsets import Offset
from airflow_provider_connect.operators import run
from airflow_provider_connect.operators.retry import ConnectRetryPolicy, TryAgainError
from airflow_provider_connect.sinks.bigquery import BigQuerySink
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sinks.kafka import KafkaSink
from airflow_provider_connect.submit.sealed import unseal
from tests.equipment.airflow.connectors import TinyLedger, TinyPublisher, TinySink
from tests.unit.operators.conftest import DONE, SECRET, SparkSubmit, Supervisor, Task


def test_success_leaves_report_offset_and_asset_event(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(DONE)
    summary = task.run()
    assert [day["status"] for day in summary["days"]] == ["published"]
    assert task.operator.days == "2026-10-05"
    offset = Offset.read(task.source, task.sink)
    assert offset is not None
    assert (offset.position, offset.origin) == (dt.date(2026, 10, 5), dt.date(2026, 10, 5))
    event = task.context["outlet_events"][task.operator.outlets[0]]
    assert event.extra == summary
    assert event.partition_keys == set()


def test_job_travels_in_private_files_and_no_secret_on_the_command_line(
    task: Task, spark_submit: SparkSubmit, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    spark_submit.does(DONE)
    with caplog.at_level(logging.DEBUG):
        task.run()
    seen = spark_submit.seen
    assert (seen["mode"], seen["folder_mode"]) == ("0o600", "0o700")
    assert seen["connections"]["tiny_default"]["password"] == SECRET
    assert SECRET not in json.dumps(seen["argv"]) + json.dumps(seen["job"]) + caplog.text + "".join(capfd.readouterr())
    assert not Path(seen["folder"]).exists()
    job = seen["job"]
    assert job["days"] == [{"date": "2026-10-05", "zone": "UTC"}]
    assert job["attempt"].startswith(job["intent"]["token"][:16])
    assert job["labels"]["task_id"] == "events"


def test_secrets_are_masked_before_anything_is_logged(
    task: Task, spark_submit: SparkSubmit, supervisor: Supervisor
) -> None:
    spark_submit.does(DONE)
    task.run()
    # Airflow masks by the names of fields; a password inside a URL is masked by us alone.
    for secret in (SECRET, SECRET[::-1], "proxy-pass"):
        assert secret in supervisor.masked


def test_missing_spark_connection_fails_for_good(
    task: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(AirflowFailException, match=r"spark_default.*airflow connections add"):
        task.run()
    assert not (spark_submit.folder / "seen.json").exists()


def test_all_problems_of_connections_are_reported_together(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TINY_DEFAULT", json.dumps({"conn_type": "http"}))
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    with pytest.raises(AirflowFailException, match=r"(?s)'spark_default'.*type 'http'.*password is missing"):
        task.run()


def test_extra_that_is_no_object_is_named(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TINY_DEFAULT", json.dumps({"conn_type": "tiny", "extra": "[1]"}))
    with pytest.raises(AirflowFailException, match="'tiny_default': its extra field is not a JSON object"):
        task.run()


def test_retriable_failure_carries_the_time_asked_for(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does(
        """
        failure = dict(type="RetriableError", message="429", retry_after_seconds=7.0)
        report(dict(day="2026-10-05", status="failed", failure=failure), failure=failure)
        sys.exit(75)
        """
    )
    with pytest.raises(TryAgainError, match="429") as caught:
        task.run()
    decision = ConnectRetryPolicy().evaluate(caught.value, 1, 3)
    assert decision.retry_delay == dt.timedelta(seconds=7)
    assert ConnectRetryPolicy().evaluate(TryAgainError("x"), 1, 3).retry_delay is None


@pytest.mark.parametrize("kind", ["ConfigError", "DataError"])
def test_config_and_data_errors_do_not_retry(task: Task, spark_submit: SparkSubmit, kind: str) -> None:
    spark_submit.does(f'report(failure=dict(type="{kind}", message="mend it")); sys.exit(78)')
    with pytest.raises(AirflowFailException, match="mend it"):
        task.run()


def test_unexpected_error_of_the_job_is_retried(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does('report(failure=dict(type="ConnectError", message="boom")); sys.exit(70)')
    with pytest.raises(TryAgainError, match="boom"):
        task.run()


@pytest.mark.parametrize(
    "script",
    ["pass", 'pathlib.Path(job["report"]).write_text("{")', f'{DONE[:-1]}, attempt="another")', "report()"],
    ids=["none", "torn", "of another attempt", "without the day"],
)
def test_exit_0_without_a_report_is_retried(task: Task, spark_submit: SparkSubmit, script: str) -> None:
    spark_submit.does(script)
    with pytest.raises(TryAgainError, match="report"):
        task.run()


@pytest.mark.parametrize("publish", ["", 'publish("2026-10-05", 1);'], ids=["never", "older generation"])
def test_published_day_must_stand_in_the_ledger(task: Task, spark_submit: SparkSubmit, publish: str) -> None:
    spark_submit.does(f'{publish} report(dict(day="2026-10-05", status="published", generation=2))')
    with pytest.raises(TryAgainError, match="ledger does not have"):
        task.run()


def test_offset_follows_what_a_failed_task_did_publish(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does('publish("2026-10-05"); sys.exit(1)')
    with pytest.raises(AirflowException):
        task.run()
    offset = Offset.read(task.source, task.sink)
    assert offset is not None
    assert offset.position == dt.date(2026, 10, 5)


NOT_RECONCILED = {"reconcile": "off", "reconcile_percent": 1.0}


def test_rules_of_completeness_reach_the_job_and_warnings_the_report_and_the_log(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, capsys: pytest.CaptureFixture[str]
) -> None:
    spark_submit.does(f'{DONE[:-2]}, warnings=["half of it is gone"]))')
    task = Task(ledger, on_shrink="warn", shrink_percent=5, row_bounds=RowBounds(percent=30))
    summary = task.run()
    rules = spark_submit.seen["job"]["rules"]
    bounds = {"percent": 30.0, "over_days": 7, "on": "fail"}
    assert rules == {"on_shrink": "warn", "shrink_percent": 5.0, "row_bounds": bounds} | NOT_RECONCILED
    assert summary["days"][0]["warnings"] == ["half of it is gone"]
    assert task.context["outlet_events"][task.operator.outlets[0]].extra == summary
    assert "[warning  ] half of it is gone" in capsys.readouterr().out


def test_superseded_day_is_no_failure(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does('publish("2026-10-06"); report(dict(day="2026-10-05", status="superseded"))')
    assert task.run()["days"][0]["status"] == "superseded"


def test_the_users_spark_options_are_merged(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger
) -> None:
    spark_submit.does(DONE)
    Task(ledger, conf={"spark.x": "1"}, num_executors=3).run()
    argv = spark_submit.seen["argv"]
    assert {"spark.x=1", "spark.speculation=false", "--num-executors"} <= set(argv)


def test_speculation_is_refused(supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger) -> None:
    with pytest.raises(AirflowFailException, match="speculation"):
        Task(ledger, conf={"spark.speculation": "true"}).run()


def test_python_in_a_standalone_cluster_is_refused(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = {"conn_type": "spark", "host": "spark://h:7077", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    with pytest.raises(AirflowFailException, match="standalone cluster cannot run Python"):
        task.run()


def test_cluster_mode_ships_files_and_reports_through_the_stage(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, tmp_path: Path, monkeypatch: Any
) -> None:
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    stage = f"file://{tmp_path}/stage"
    task = Task(ledger, staging=stage)
    spark_submit.does("")
    script = spark_submit.folder / "spark-submit"
    # Shipped files lie in the driver's working folder; this driver finds them where they came from.
    shipped = 'pathlib.Path(sys.argv[sys.argv.index("--files") + 1].split(",")[0])'
    driver = script.read_text().replace("pathlib.Path(sys.argv[-1])", shipped)
    to_stage = 'job["report"] = job["report"].removeprefix("file://")'
    script.write_text(f'{driver}{to_stage}; os.makedirs(os.path.dirname(job["report"])); {DONE}')
    task.run()
    assert spark_submit.seen["argv"][-1] == "job.json"
    assert spark_submit.seen["job"]["report"].startswith(f"{stage}/_connect/reports/")
    for folder in ("reports", "sealed"):
        assert list((tmp_path / "stage" / "_connect" / folder).iterdir()) == []
    assert spark_submit.seen["connections"] is None
    assert spark_submit.seen["sealed"], "the sealed connections did not lie in the stage while the driver ran"
    driver_s = SealedConnections(**spark_submit.seen["job"]["sealed_connections"])
    place = Path(driver_s.url.removeprefix("file://"))
    place.write_bytes(bytes.fromhex(spark_submit.seen["sealed"]))
    assert unseal(driver_s)["tiny_default"].password is not None


def test_a_task_that_cannot_start_its_driver_leaves_no_sealed_connections(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, tmp_path: Path, monkeypatch: Any
) -> None:
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    with pytest.raises(AirflowFailException, match="speculation"):
        Task(ledger, staging=f"file://{tmp_path}/stage", conf={"spark.speculation": "true"}).run()
    assert list((tmp_path / "stage" / "_connect" / "sealed").iterdir()) == []


def test_cluster_mode_needs_a_place_for_the_report(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(spark))
    with pytest.raises(AirflowFailException, match="staging="):
        task.run()


def test_a_sink_without_a_stage_gets_a_private_folder_where_spark_is_local(
    task: Task, spark_submit: SparkSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spark_submit.does(DONE)
    task.run()
    staging = Path(spark_submit.seen["job"]["staging"])
    assert staging.is_dir()
    assert staging.parent == tmp_path / f"connect-stage-{os.getuid()}"


def test_a_sink_without_a_stage_needs_one_named_on_a_cluster(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "spark://h:7077"}')
    with pytest.raises(
        AirflowFailException, match="staging= for polled days, a path or URL that every worker of 'spark://h:7077'"
    ):
        task.run()


def test_the_last_publish_has_a_link(task: Task, spark_submit: SparkSubmit) -> None:
    link = "https://console.example/jobs/1"
    spark_submit.does(DONE.replace("rows_written=10", f'rows_written=10, link="{link}"'))
    task.run()
    [button] = task.operator.operator_extra_links
    assert button.get_link(task.operator, ti_key=task.context["ti"]) == link


@pytest.mark.parametrize("option", [{"application": "x.py"}, {"application_args": ["a"]}, {"durable": True}])
def test_what_the_operator_sets_itself_is_refused(ledger: TinyLedger, option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        Task(ledger, **option)


def test_swapped_connectors_are_refused(ledger: TinyLedger) -> None:
    with pytest.raises(ConfigError, match=r"source: must be a Source, such as a class of .*\.sources, not a TinySink"):
        Task(ledger, source=TinySink(table="t"))


def test_killed_task_leaves_no_folder(task: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch) -> None:
    spark_submit.does(DONE)
    left: list[bool] = []

    def killed(context: Any) -> None:
        folder = task.operator._folder
        assert folder is not None
        left.append(folder.exists())
        task.operator.on_kill()
        left.append(folder.exists())

        raise AirflowException("Cannot execute: spark-submit. Error code is: -9.")

    monkeypatch.setattr(
        "airflow.providers.apache.spark.operators.spark_submit.SparkSubmitOperator.execute",
        lambda operator, context: killed(context),
    )
    with pytest.raises(AirflowException, match="Error code is: -9"):
        task.run()
    assert left == [True, False]


@pytest.mark.parametrize("days", ["2999-01-01", "2026-10-05..2999-01-01"])
def test_a_day_that_lies_ahead_is_refused_before_spark_starts(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, days: str
) -> None:
    with pytest.raises(AirflowFailException, match="2999-01-01 are in the future"):
        Task(ledger, days=days).run()
    assert not (spark_submit.folder / "seen.json").exists()


def test_a_missing_folder_is_refused_before_spark_starts(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, tmp_path: Path
) -> None:
    for options in ({"sink": DeltaSink(path=f"{tmp_path}/no/table")}, {"staging": f"file://{tmp_path}/no/stage"}):
        with pytest.raises(AirflowFailException, match=f"folder '{tmp_path}/no' does not exist"):
            Task(ledger, **options).run()
    assert not (spark_submit.folder / "seen.json").exists()
    assert not (tmp_path / "no").exists()


def test_a_dead_broker_is_found_before_spark_starts_a_first_load(
    supervisor: Supervisor,
    spark_submit: SparkSubmit,
    ledger: TinyLedger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "_SINK_ANSWER_SECONDS", 1.5)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nothing listens there
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        kafka = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": address}})
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", kafka)
        sink = KafkaSink(topic="events", key_fields=["id"])
        with pytest.raises(TryAgainError, match="no broker answers"):
            Task(ledger, sink=sink, staging=str(tmp_path)).run()
    assert not (spark_submit.folder / "seen.json").exists()


def test_the_sink_is_asked_before_spark_until_the_first_day_is_published(
    task: Task, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(ledger: TinyLedger) -> Any:
        raise RetriableError("the tiny server does not answer")

    spark_submit.does(DONE)
    with monkeypatch.context() as dead:
        dead.setattr(TinyLedger, "days", refuse)
        with pytest.raises(TryAgainError, match="the tiny server does not answer"):
            task.run()
    assert not (spark_submit.folder / "seen.json").exists()
    task.run()
    (spark_submit.folder / "seen.json").unlink()
    with monkeypatch.context() as dead:
        dead.setattr(TinyLedger, "days", refuse)
        with pytest.raises(TryAgainError, match="the tiny server does not answer"):
            task.run()
    assert (spark_submit.folder / "seen.json").exists()  # the job waits for a server that worked before


def test_every_connection_must_be_of_its_type(
    supervisor: Supervisor, spark_submit: SparkSubmit, ledger: TinyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_DEFAULT", "TINY_DEFAULT", "KAFKA_DEFAULT", "REGISTRY", "GOOGLE_CLOUD_DEFAULT"):
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps({"conn_type": "ftp", "host": "h"}))
    kafka = KafkaSink(topic="t", value_converter="avro", registry_conn_id="registry")
    with pytest.raises(AirflowFailException) as caught:
        Task(ledger, sink=kafka).run()
    for said in (
        "connection 'spark_default' has type 'ftp'; Spark (argument conn_id) requires type 'spark'",
        "connection 'tiny_default' has type 'ftp'; TinySource (option conn_id) requires type 'tiny'",
        "connection 'kafka_default' has type 'ftp'; KafkaSink (option conn_id) requires type 'kafka'",
        "connection 'registry' has type 'ftp'; KafkaSink (option registry_conn_id) requires type 'http' or",
    ):
        assert said in str(caught.value)
    google = "'google_cloud_default' has type 'ftp'; BigQuerySink .* requires type 'google_cloud_platform' or"
    with pytest.raises(AirflowFailException, match=google):
        Task(ledger, sink=BigQuerySink(table="d.t")).run()


@pytest.fixture
def _publisher_cannot_close(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(publisher: TinyPublisher) -> None:
        raise RuntimeError(f"logout refused for {SECRET}")

    monkeypatch.setattr(TinyPublisher, "close", refuse)


@pytest.mark.usefixtures("_publisher_cannot_close")
def test_a_publisher_that_cannot_be_closed_fails_no_finished_task(
    task: Task, spark_submit: SparkSubmit, capfd: pytest.CaptureFixture[str]
) -> None:
    spark_submit.does(DONE)
    assert [day["status"] for day in task.run()["days"]] == ["published"]
    said = "".join(capfd.readouterr())
    assert "TinyPublisher could not be closed: unexpected RuntimeError" in said
    assert SECRET not in said


@pytest.mark.usefixtures("_publisher_cannot_close")
def test_a_publisher_that_cannot_be_closed_hides_no_failure(task: Task, spark_submit: SparkSubmit) -> None:
    spark_submit.does('report(failure=dict(type="DataError", message="bad line")); sys.exit(65)')
    with pytest.raises(AirflowFailException, match="bad line"):
        task.run()
