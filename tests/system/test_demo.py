"""The demo leaves no process behind when it is interrupted or cannot start."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.demo.local_airflow import marked
from tests.system.conftest import wait_for

pytestmark = pytest.mark.slow

DAGS = Path(__file__).parents[2] / "dags"


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.demo", *options],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def mark(folder: Path) -> str:
    return str((folder / ".demo" / "airflow").resolve())


def commands(mark: str) -> str:
    """Return the commands of all processes with a mark; one that ends meanwhile counts no more."""
    found = []
    for process in marked(mark):
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline()))
    return "\n".join(found)


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path):
    """Neither of Airflow's nor its sink's server."""
    shutil.copytree(DAGS, tmp_path / "dags")
    demo = start(tmp_path, "--sink", "kafka")
    log = tmp_path / ".demo" / "airflow" / "scheduler.log"
    wait_for(lambda: log.exists() and log.stat().st_size > 0, 180, "a scheduler that starts")
    assert "kafka.Kafka" in commands(mark(tmp_path))
    demo.send_signal(signal.SIGINT)
    output, _ = demo.communicate(timeout=180)
    assert demo.returncode == 130, output
    assert "stopping everything" in output
    assert commands(mark(tmp_path)) == ""
    assert list(marked(mark(tmp_path))) == []


def test_a_demo_that_is_ended_again_and_again_while_it_stops_leaves_no_process(tmp_path: Path):
    shutil.copytree(DAGS, tmp_path / "dags")
    demo = start(tmp_path, "--sink", "bigquery")
    log = tmp_path / ".demo" / "airflow" / "dag-processor.log"
    wait_for(lambda: log.exists() and log.stat().st_size > 0, 180, "a DAG processor that starts")
    assert "bqemulator" in commands(mark(tmp_path))
    while demo.poll() is None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            demo.send_signal(number)
        time.sleep(0.02)
    output, _ = demo.communicate(timeout=180)
    assert list(marked(mark(tmp_path))) == [], commands(mark(tmp_path))
    assert demo.returncode == 130, output
    assert output.count("stopping everything") == 1


def test_a_start_that_fails_says_why_and_leaves_no_process(tmp_path: Path):
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "mixpanel_daily.py").write_text("from airflow.sdk import DAG\nimport no_such_module\n")
    demo = start(tmp_path)
    output, _ = demo.communicate(timeout=180)
    assert demo.returncode == 1, output
    assert "no_such_module" in output
    assert list(marked(mark(tmp_path))) == []
