"""The parts of the demo that need no server: which sinks it knows, and what it says of a table that is not right."""

from __future__ import annotations

import datetime as dt
import json
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.demo.__main__ import ORIGINS, TARGETS, Demo, main
from tests.demo.bigquery_target import BigQueryTarget
from tests.demo.delta_target import DeltaTarget
from tests.demo.kafka_target import KafkaTarget
from tests.demo.local_airflow import LocalAirflow
from tests.demo.report import compare
from tests.standins import bigquery_emulator, kafka_broker, server
from tests.standins.mixpanel.events import Project

DAGS = Path(__file__).parents[3] / "dags"
FIRST, SECOND = dt.date(2026, 9, 1), dt.date(2026, 9, 2)
PROJECT = Project(seed=3, events_per_day=5)


def rows(*dates: dt.date) -> list[tuple[dt.date, str, str]]:
    """Return what a table holds when all is right, with the text of the JSON in no particular form."""
    return [
        (date, row["event"], json.dumps(row["properties"], indent=1))
        for date in dates
        for row in PROJECT.expected_rows(date)
    ]


def as_document(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def test_a_table_that_holds_what_was_served_has_no_differences():
    assert compare(reversed(rows(FIRST, SECOND)), PROJECT, [FIRST, SECOND], as_document) == []


def test_a_table_that_keeps_every_byte_is_held_to_every_byte(tmp_path: Path):
    served = [
        (FIRST, row["event"], json.dumps(row["properties"], ensure_ascii=False, separators=(",", ":")))
        for row in PROJECT.expected_rows(FIRST)
    ]
    delta, bigquery = DeltaTarget(tmp_path), BigQueryTarget(tmp_path)
    assert compare(served, PROJECT, [FIRST], delta.as_kept) == []
    assert compare(rows(FIRST), PROJECT, [FIRST], delta.as_kept) == ["2026-09-01: 5 rows missing, 5 rows too many"]
    assert compare(rows(FIRST), PROJECT, [FIRST], bigquery.as_kept) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rows(FIRST)[1:], "2026-09-01: 1 rows missing, 0 rows too many"),
        (rows(FIRST) + rows(FIRST)[:2], "2026-09-01: 0 rows missing, 2 rows too many"),
        ([(FIRST, "Other", text) for _, _, text in rows(FIRST)], "2026-09-01: 5 rows missing, 5 rows too many"),
        ([], "2026-09-01: 5 rows missing, 0 rows too many"),
        (rows(FIRST, SECOND), "2026-09-02: 5 rows of a day that nobody requested"),
    ],
)
def test_every_difference_is_named_with_its_day(found: list[tuple[dt.date, str, str]], said: str):
    assert compare(found, PROJECT, [FIRST], as_document) == [said]


def test_an_unknown_sink_is_told_which_ones_there_are(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="2"):
        main(["--sink", "deltta"])
    said = capsys.readouterr().err
    assert "'deltta'" in said
    assert all(name in said for name in ("delta", "bigquery", "kafka"))


def test_outside_a_clone_the_demo_names_the_file_it_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["--sink", "bigquery"]) == 2
    assert "dags/mixpanel_to_bigquery.py" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(ORIGINS))
def test_every_origin_has_an_example_dag_for_each_of_its_sinks(name: str):
    origin = ORIGINS[name]()
    assert origin.name == name
    for sink, target in origin.targets.items():
        assert target.name == sink
        text = (DAGS / f"{target.dag_id}.py").read_text()
        assert f'"{origin.connection(1, "s")["connection_id"]}"' in text
        assert f'task_id="{origin.task_id}"' in text


def test_a_sink_without_an_example_for_the_source_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["--source", "x_search", "--sink", "kafka"]) == 2
    assert "no example of x_search with kafka; known: delta" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_target_has_its_example_dag(name: str):
    assert TARGETS[name].name == name
    assert (DAGS / f"{TARGETS[name].dag_id}.py").exists()


def test_delta_target_reads_the_table_that_the_dag_is_told_of(tmp_path: Path):
    target = DeltaTarget(tmp_path)
    assert str(tmp_path) in target.start({})
    assert target.rows() == 0
    times = [dt.datetime(2026, 9, 1, hour, tzinfo=dt.UTC) for hour in (5, 4, 3, 2)]
    table = pa.table(
        {
            "day": pa.array([FIRST] * 4, pa.date32()),
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "event": ["e5", "e4", "e3", "e2"],
            "distinct_id": ["u"] * 4,
            "properties": ['{"a": "' + "x" * 100 + '"}'] * 4,
        }
    )
    write_deltalake(target.settings["CONNECT_DEMO_TABLE"], table)
    assert target.rows() == 4
    assert [(day, event) for day, event, _ in target.events()] == [(FIRST, event) for event in ("e5", "e4", "e3", "e2")]
    assert [row[2] for row in target.sample()] == ["e2", "e3", "e4"]
    target.start({})
    assert target.rows() == 0, "the table of an earlier demo is still there"


def test_bigquery_target_tells_airflow_where_the_emulator_is(tmp_path: Path):
    target = BigQueryTarget(tmp_path)
    [connection] = target.connections
    assert (connection["connection_id"], connection["conn_type"]) == ("google_cloud_default", "google_cloud_platform")
    assert json.loads(connection["extra"]) == {
        "project": "connect-demo",
        "rest_endpoint": f"http://127.0.0.1:{target.emulator.rest_port}",
        "grpc_endpoint": f"http://127.0.0.1:{target.emulator.grpc_port}",
        "is_anonymous": "true",
    }
    assert target.emulator.rest_url in target.where_to_look("http://localhost:1/dags/d")


def test_kafka_target_tells_airflow_where_the_broker_is(tmp_path: Path):
    target = KafkaTarget(tmp_path)
    [connection] = target.connections
    assert (connection["connection_id"], connection["conn_type"]) == ("kafka_default", "kafka")
    assert json.loads(connection["extra"]) == {"bootstrap.servers": f"127.0.0.1:{target.broker.port}"}
    assert target.broker.bootstrap in target.where_to_look("http://localhost:1/dags/d")
    assert compare(rows(FIRST), PROJECT, [FIRST], target.as_kept) == []


def test_a_kafka_of_the_right_version_is_not_fetched_again(tmp_path: Path):
    folder = tmp_path / "kafka"
    folder.mkdir()
    (folder / "installed.txt").write_text(kafka_broker.VERSION)
    assert kafka_broker.fetched(folder) == folder
    assert [path.name for path in folder.iterdir()] == ["installed.txt"]


def test_ports_of_servers_are_none_that_outgoing_connections_get():
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(given.read_text().split()[0]) if given.exists() else 32_768
    assert {server.free_port() < first for _ in range(20)} == {True}


def test_an_emulator_of_the_right_versions_is_not_fetched_again(tmp_path: Path):
    folder = tmp_path / "emulator"
    folder.mkdir()
    (folder / "installed.txt").write_text(bigquery_emulator.PINS.read_text())
    assert bigquery_emulator.installed(folder) == folder
    assert [path.name for path in folder.iterdir()] == ["installed.txt"]


def test_only_the_end_of_a_log_is_shown():
    assert server.tail("\n".join(map(str, range(100)))) == "\n".join(map(str, range(85, 100)))


def test_what_is_fetched_anew_replaces_what_was_there_and_a_failure_leaves_no_mark(tmp_path: Path):
    folder = tmp_path / "thing"

    def fail(empty: Path) -> None:
        (empty / "half").touch()
        raise RuntimeError("no network")

    with pytest.raises(RuntimeError, match="no network"):
        server.fetched_once(folder, "1", fail, "a thing")
    server.fetched_once(folder, "1", lambda empty: (empty / "one").touch(), "a thing")
    server.fetched_once(folder, "1", fail, "a thing")
    server.fetched_once(folder, "2", lambda empty: (empty / "two").touch(), "a thing")
    assert sorted(path.name for path in folder.iterdir()) == ["installed.txt", "two"]


def test_a_command_that_fails_says_its_last_lines():
    with pytest.raises(RuntimeError, match=r"trying failed with code 3:\nsorry"):
        server.run(["sh", "-c", "echo sorry; exit 3"], "trying")
    with pytest.raises(RuntimeError, match=r"waiting did not end within 0.1 s"):
        server.run(["sleep", "20"], "waiting", seconds=0.1)


def test_a_server_that_does_not_answer_is_ended_with_the_end_of_its_log(tmp_path: Path):
    log = tmp_path / "log"
    silent = ["sh", "-c", "echo cannot; exec sleep 60"]
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"the thing did not start; the end of .*\ncannot"):
        server.start(silent, lambda: False, name="the thing", log=log, cwd=tmp_path, seconds=0.5)
    with pytest.raises(RuntimeError, match="cannot"):
        server.start(["sh", "-c", "echo cannot"], lambda: False, name="the thing", log=log, cwd=tmp_path, seconds=30)
    assert time.monotonic() - began < 15


def test_a_server_that_holds_still_is_ended(tmp_path: Path):
    process = server.start(["sleep", "60"], lambda: True, name="x", log=tmp_path / "log", cwd=tmp_path, seconds=5)
    process.send_signal(signal.SIGSTOP)
    server.stop(process, seconds=5)
    assert process.returncode == -signal.SIGTERM
    assert not server.gives_ok(f"http://127.0.0.1:{server.free_port()}/")


class Answers:
    """Stands where the demo's Airflow stands: a task fails, waits for its retry, and then the days are done."""

    home = Path("/demo/airflow")

    def __init__(self) -> None:
        self.asked = 0

    def check_alive(self) -> None:
        self.asked += 1

    def runs(self, dag_id: str) -> list[dict[str, str]]:
        return [{"state": "running" if self.asked == 1 else "success"}] * 7

    def waiting_for_retry(self, dag_id: str) -> int:
        return 2 if self.asked == 1 else 0


def test_tasks_that_wait_for_a_retry_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    demo = Demo(DAGS, DeltaTarget(tmp_path))
    settings = demo.airflow.environment()
    assert 0 < float(settings["AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY"]) <= 10
    demo.airflow = Answers()  # type: ignore[assignment]
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    demo._wait()
    first, last = capsys.readouterr().out.splitlines()
    assert "0 of 7 days done" in first
    assert (
        "2 tasks failed and try again 5 s later; for the reason see /demo/airflow/logs/dag_id=mixpanel_daily" in first
    )
    assert "7 of 7 days done" in last
    assert "retry" not in last


def test_an_airflow_that_somebody_stopped_is_told_without_a_stack(tmp_path: Path):
    with pytest.raises(RuntimeError, match=r"GET dags: Airflow does not answer \(ConnectionError\)"):
        LocalAirflow(tmp_path, DAGS).api("GET", "dags")


def test_the_last_line_is_repeated_while_nothing_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tests.demo.__main__.SILENT_SECONDS", 0.2)
    demo = Demo(DAGS, DeltaTarget(tmp_path))
    with demo._signs_of_life():
        demo._say("starting Airflow")
        time.sleep(1.8)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("] starting Airflow")
    assert {line.partition("] ")[2] for line in lines[1:]} == {"still starting Airflow"}
    demo._say("done")
    time.sleep(0.6)
    assert capsys.readouterr().out.count("\n") == 1


def test_the_demo_runs_a_triggerer_whose_logs_have_a_port_of_their_own(tmp_path: Path):
    airflow = Demo(DAGS, DeltaTarget(tmp_path)).airflow
    assert "triggerer" in airflow.roles
    environment = airflow.environment()
    ports = {environment[f"AIRFLOW__LOGGING__{role}_LOG_SERVER_PORT"] for role in ("WORKER", "TRIGGER")}
    assert len(ports | {environment["AIRFLOW__API__PORT"]}) == 3
