"""A real standalone cluster on loopback whose Python lacks this package: the zip alone brings it there."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.submit import launch

pytestmark = pytest.mark.slow

DAYS = ["2026-10-05", "2026-10-06", "2026-10-07"]

PROBE = """\
import os, sys
from pyspark import SparkContext

def look(_):
    import airflow_provider_connect as package
    return [(os.path.abspath(package.__file__), sys.executable, os.getcwd())]

print("probe:", *SparkContext().parallelize([0], 1).mapPartitions(look).collect()[0], sep="|", flush=True)
"""


@pytest.fixture(scope="module")
def executor_python(tmp_path_factory, bare_site, bare_python):
    """What executors run: everything that is installed here, but not this package."""
    script = tmp_path_factory.mktemp("python") / "python-elsewhere"
    path = f'"${{PYTHONPATH:+$PYTHONPATH:}}{bare_site}"'
    script.write_text(f"#!/bin/sh\nexport PYTHONNOUSERSITE=1 PYTHONPATH={path}\nexec '{bare_python}' \"$@\"\n")
    script.chmod(0o700)
    code = "import pyarrow, pydantic, deltalake, msgspec, isal, airflow_provider_connect"
    alone = subprocess.run([script, "-c", code], cwd=script.parent, capture_output=True, text=True, check=False)
    assert "No module named 'airflow_provider_connect'" in alone.stderr
    return script


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Start a master and a worker on free ports; yield the master's URL, the worker's folder and its environment."""
    tmp = tmp_path_factory.mktemp("cluster")
    pyspark = Path(importlib.util.find_spec("pyspark").origin).parent
    (tmp / "conf").mkdir()
    env = os.environ | {
        "SPARK_HOME": str(pyspark),
        "SPARK_CONF_DIR": str(tmp / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(tmp / "local"),
        "SPARK_DAEMON_JAVA_OPTS": launch.FAST_JVM,
        "SPARK_DAEMON_MEMORY": "256m",
        "JAVA_HOME": str(launch.java_home(tmp)),
    }
    with contextlib.ExitStack() as stack:
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(daemon(tmp / "master.log", env, "master.Master", *where))
        url = said(tmp / "master.log", master, r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        size = ["--cores", "2", "--memory", "1g", "--work-dir", str(tmp / "work")]
        worker = stack.enter_context(daemon(tmp / "worker.log", env, "worker.Worker", *where, *size, url))
        said(tmp / "worker.log", worker, r"(Successfully registered) with master")
        yield url, tmp, env


@contextlib.contextmanager
def daemon(log, env, name, *arguments):
    with log.open("wb") as output:
        command = [Path(env["SPARK_HOME"]) / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", *arguments]
        process = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def said(log, process, pattern, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (found := re.search(pattern, log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


@pytest.fixture
def elsewhere(submit, cluster, executor_python, monkeypatch):
    """The submitter, set to the cluster as a user's Spark connection and conf would."""
    url, _, env = cluster
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "JAVA_HOME"):
        monkeypatch.setenv(name, env[name])
    submit.master = url
    submit.conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": launch.FAST_JVM,
        "spark.executor.extraJavaOptions": launch.FAST_JVM,
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": str(executor_python),
    }
    return submit


def test_days_arrive_and_the_secret_stays_out_of_the_worker_s_folders(elsewhere, cluster):
    ended = elsewhere.run(DAYS)
    assert ended.process.returncode == 0, ended.output
    assert {(day.status, day.generation) for day in ended.report.days} == {("published", 1)}
    assert elsewhere.rows() == elsewhere.served(DAYS)
    _, tmp, _ = cluster
    secret = elsewhere.standin.account.secret.encode()
    left = [path for path in tmp.rglob("*") if path.is_file()]
    assert [path for path in left if path.match("work/app-*/*/stderr")], "no executor ran on the worker"
    assert [path for path in left if path.match("work/app-*/*/airflow_provider_connect-*.zip")]
    assert [path for path in left if secret in path.read_bytes()] == []


@pytest.mark.campaign
def test_a_transform_s_result_is_frozen_by_the_executors(elsewhere):
    elsewhere.transform = Transform(sql="SELECT * FROM polled WHERE event IS NOT NULL")
    ended = elsewhere.run(DAYS[:1])
    assert ended.process.returncode == 0, ended.output
    (day,) = ended.report.days
    assert (day.status, day.counts["rows_polled"], day.rows_written) == ("published", 2000, 2000)
    assert elsewhere.rows() == elsewhere.served(DAYS[:1])


def test_the_executor_s_package_is_the_one_in_the_zip(elsewhere, cluster, executor_python, bare_python, tmp_path):
    url, tmp, _ = cluster
    (tmp_path / "probe.py").write_text(PROBE)
    how = launch.prepare(master=url, deploy_mode="client", user_conf=elsewhere.conf, run_folder=tmp_path)
    conf = [part for name, value in how.conf.items() for part in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", url, *conf, "--py-files", how.py_files, str(tmp_path / "probe.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    file, executable, folder = re.search(r"^probe:\|(.*)$", ended.stdout, re.MULTILINE)[1].split("|")
    assert file.startswith(str(tmp / "work"))
    assert f"/{Path(how.py_files).name}/airflow_provider_connect/" in file
    assert os.path.realpath(executable) == bare_python
    assert folder.startswith(str(tmp / "work"))
