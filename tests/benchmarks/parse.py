"""What a DAG file costs Airflow's DAG processor: ours beside a file that does the same with Spark's own operator.

``python tests/benchmarks/parse.py [--rounds N]``

The processor parses every file in a process of its own, forked from one that has imported Airflow. So each figure is of
such a process that has imported Airflow and its Spark operator, parses one file and ends: our imports are in it, each
time. It is CPU time, which another program on the machine hardly touches. Rounds go through all files in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REFERENCE = """
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG
with DAG("reference", schedule=None):
    for number in range({tasks}):
        SparkSubmitOperator(task_id=f"t{{number}}", application="job.py", conn_id="spark_default")
"""
OURS = """
from airflow.sdk import DAG
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily
with DAG("ours", schedule=daily("US/Pacific")):
    for number in range({tasks}):
        ConnectOperator(
            task_id=f"t{{number}}",
            source=MixpanelSource(conn_id="mixpanel_default", stream="export", zone="US/Pacific"),
            sink=DeltaSink(path=f"/lake/events{{number}}"),
        )
"""
FILES = """
from airflow_provider_connect.pipelines import dags_from
dags_from("pipelines/*.yaml")
"""
PIPELINE = """
name: pipeline_{number}
schedule: daily
source:
  mixpanel: {{conn_id: mixpanel_default, stream: export, zone: US/Pacific}}
sink:
  delta: {{path: /lake/events{number}}}
"""
PARSE = """
import gc, os, sys, time, runpy
import airflow.sdk
import airflow.providers.apache.spark.operators.spark_submit
from airflow.sdk import Asset, BaseHook, CronDataIntervalTimetable, RetryPolicy, Variable
for file in sys.argv[1:]:
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        began = time.process_time()
        runpy.run_path(file)
        print(1000 * (time.process_time() - began), flush=True)
        os._exit(0)
    os.close(write)
    print(os.read(read, 100).decode().strip())
    os.wait()
"""


def write_files(folder: Path, pipelines: int) -> dict[str, Path]:
    """Write the DAG files; return them by what they hold."""
    texts = {
        "1 task of Spark's operator": REFERENCE.format(tasks=1),
        "1 task of ours": OURS.format(tasks=1),
        "20 tasks of Spark's operator": REFERENCE.format(tasks=20),
        "20 tasks of ours": OURS.format(tasks=20),
        f"{pipelines} pipelines in files": FILES,
    }
    files = {}
    for number, (name, text) in enumerate(texts.items()):
        files[name] = folder / f"dag{number}.py"
        files[name].write_text(text, encoding="utf-8")
    (folder / "pipelines").mkdir()
    for number in range(pipelines):
        (folder / "pipelines" / f"{number}.yaml").write_text(PIPELINE.format(number=number), encoding="utf-8")
    return files


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pipelines", type=int, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), args.pipelines)
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        command = [sys.executable, "-c", PARSE, *map(str, files.values())]
        found: dict[str, list[float]] = {name: [] for name in files}
        for _ in range(args.rounds + 1):  # the first compiles
            out = subprocess.run(
                command, capture_output=True, text=True, check=True, env=env | {"AIRFLOW_HOME": folder}
            )
            for name, line in zip(files, out.stdout.splitlines()[-len(files) :], strict=True):
                found[name].append(float(line))
    print(f"ms of CPU to parse a file, median (min to max) of {args.rounds} rounds")
    for name, values in found.items():
        kept = values[1:]
        print(f"{name:32} {statistics.median(kept):7.1f} ({min(kept):.1f} to {max(kept):.1f})")
    print(json.dumps({name: statistics.median(values[1:]) for name, values in found.items()}))


if __name__ == "__main__":
    main()
