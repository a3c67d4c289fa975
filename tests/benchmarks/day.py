"""Speed and memory, as ratios to ``curl --compressed`` of the same day in the same run: ``make benchmark``.

Days of 500,000 events of 836 B come from the stand-in. The rounds alternate between curl and what is measured, so that
both meet the same machine; every figure is the median of the rounds, with the least and the greatest. Nothing is
asserted: seconds mean little on another machine, and ratios little on a busy one.
"""

from __future__ import annotations

import argparse
import datetime as dt
import fcntl
import importlib
import itertools
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from airflow_provider_connect.connection import Connection, write_connections
from airflow_provider_connect.job import JobConfig, JobReport
from airflow_provider_connect.sink import Intent
from airflow_provider_connect.source import PollContext
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.stage.transform import Transform
from airflow_provider_connect.submit import launch
from airflow_provider_connect.window import Day

ROOT = Path(__file__).parents[2]
DAYS = [dt.date(2026, 10, 25) + dt.timedelta(days=n) for n in range(7)]
USER, SECRET, PROJECT = "demo.service-account", "demo-secret", "1234567"
SOURCE = {"conn_id": "mixpanel", "promote": {"$browser": "string", "$screen_width": "bigint"}}
MASTER = "local[2]"
RUNS = itertools.count(1)


class Polled(NamedTuple):
    """One day, polled and staged in a warm process."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    rows: int
    raw_mb: float
    file_mb: float


class Task(NamedTuple):
    """One spark-submit, from its start to its end; the CPU is that of all its processes."""

    seconds: float
    cpu_seconds: float
    work_seconds: float
    peak_mb: float
    report: JobReport


class Bench:
    """What the measurements share: the stand-in's address and a folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.master = MASTER
        self.connection = Connection(
            conn_id="mixpanel",
            conn_type="mixpanel",
            host=url,
            login=USER,
            password=SECRET,
            extra={"project_id": PROJECT},
        )

    def curl(self, day: dt.date) -> float:
        """Return the seconds that curl takes for the day."""
        address = f"{self.url}/api/2.0/export?from_date={day}&to_date={day}&project_id={PROJECT}"
        account = f"{USER}:{SECRET}"
        started = time.perf_counter()
        subprocess.run(
            ["curl", "--fail", "--silent", "--compressed", "--user", account, "-o", "/dev/null", address], check=True
        )
        return time.perf_counter() - started

    def poll(self, day: dt.date) -> Polled:
        """Poll and stage a day as a Spark task does, in a process of its own that has imported everything."""
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(warm_up)
            return pool.apply(poll_and_stage, (self.connection, day, str(self.folder / f"stage-{next(RUNS)}")))

    def task(self, days: list[dt.date], *, transform: Transform | None = None, **options: object) -> Task:
        """Run the whole job over days into a new table, as the operator does.

        :param transform: what Spark SQL makes of each day.
        :param options: more of the source's.
        """
        run = self.folder / f"run-{next(RUNS)}"
        run.mkdir(mode=0o700)
        job = JobConfig(
            source_name="mixpanel",
            source=SOURCE | options,
            sink_name="delta",
            sink={"path": str(run / "table")},
            days=tuple(Day(date=day) for day in days),
            intent=Intent(token="a" * 32, run="dag/run/task"),
            attempt=f"{'a' * 16}-000001",
            report=str(run / "report.json"),
            progress_seconds=5,
            transform=transform,
        )
        (run / "job.json").write_text(job.model_dump_json())
        write_connections(run / "connections.json", {"mixpanel": self.connection})
        started = time.perf_counter()
        with (run / "alive.lock").open("wb") as lock, (run / "log").open("wb") as log:
            fcntl.flock(lock, fcntl.LOCK_EX)
            how = launch.prepare(master=self.master, deploy_mode="client", user_conf={}, run_folder=run)
            conf = itertools.chain.from_iterable(("--conf", f"{name}={value}") for name, value in how.conf.items())
            command = ["spark-submit", "--master", self.master, *conf, how.application, str(run / "job.json")]
            process = subprocess.Popen(command, env=os.environ | how.env_vars, stdout=log, stderr=log)
            cpu_seconds, peak_mb = watch(process)
        seconds = time.perf_counter() - started
        launch.finish(run)
        if process.returncode:
            sys.exit((run / "log").read_text())
        report = JobReport.model_validate_json((run / "report.json").read_text())
        shutil.rmtree(run)
        return Task(seconds, cpu_seconds, report.seconds["work"], peak_mb, report)


def warm_up() -> None:
    """Import what a worker that has done a day has imported."""
    for name in ("isal.isal_zlib", "msgspec", "numpy", "pyarrow.compute", "pyarrow.parquet", "xxhash"):
        importlib.import_module(name)
    importlib.import_module("airflow_provider_connect.spark.poll")


def poll_and_stage(connection: Connection, date: dt.date, stage: str) -> Polled:
    """Poll and stage one day."""
    from airflow_provider_connect.spark.poll import PollTask, stage_partition

    with MixpanelSource.from_options(SOURCE).open(connection, PollContext()) as poller:
        schema, (part,) = poller.schema(), poller.plan([Day(date=date)])
    task = PollTask(source_name="mixpanel", source=SOURCE, part=part, root=stage, attempts=("a-1",), progress_seconds=5)
    Path(stage).mkdir()
    cpu, started = time.process_time(), time.perf_counter()
    polled = stage_partition(task, schema, connection)[date]
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shutil.rmtree(stage)
    file_mb = sum(one.size_bytes for one in polled.files) / 1e6
    return Polled(seconds, cpu, peak_mb, polled.rows_read, polled.raw_bytes / 1e6, file_mb)


def watch(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Wait for a process; return the CPU seconds of it and all below it, and the MB of the largest Python among them.

    Spark's workers are never waited for, so their usage does not reach their parents: they are looked at as they run.
    """
    cpu: dict[int, float] = {}
    peak_mb = 0.0
    root = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.Error):
            for one in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):
                    used = one.cpu_times()
                    cpu[one.pid] = used.user + used.system
                    if "python" in one.name():
                        peak_mb = max(peak_mb, one.memory_info().rss / 2**20)
        time.sleep(0.05)
    return sum(cpu.values()), peak_mb


@contextmanager
def standin(events: int, days: list[dt.date], cache: Path) -> Iterator[str]:
    """Serve the days, made before; yield the address."""
    cache.mkdir(parents=True, exist_ok=True)
    print(f"making or finding {len(days)} days of {events:,} events in {cache}", flush=True)
    command = [sys.executable, "-m", "tests.standins.mixpanel", "--cache", str(cache)]
    command += ["--events-per-day", str(events), "--duplicates-per-day", str(events // 1000), "--exit-with-parent"]
    command += ["--queries-per-hour", "10000", "--queries-per-second", "100", "--prepare", *map(str, days)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def show(name: str, values: list[float], unit: str) -> None:
    """Print one figure: its median, least and greatest."""
    low, middle, high = min(values), statistics.median(values), max(values)
    print(f"{name:46s} {middle:8.2f} {unit:6s} ({low:.2f} to {high:.2f})", flush=True)


def show_polls(bench: Bench, day: dt.date, rounds: int) -> None:
    """Measure one stream beside curl."""
    curls, polls, ratios = [], [], []
    for _ in range(rounds):
        before, polled, after = bench.curl(day), bench.poll(day), bench.curl(day)
        curls += [before, after]
        polls.append(polled)
        ratios.append(polled.seconds / ((before + after) / 2))
    last = polls[-1]
    print(f"a day: {last.rows:,} rows, {last.raw_mb:,.0f} MB of JSON, {last.file_mb:.0f} MB as Parquet")
    show("curl --compressed", curls, "s")
    show("poll and stage, warm, one stream", [one.seconds for one in polls], "s")
    show("  as a ratio to curl", ratios, "x")
    show("  CPU", [one.cpu_seconds for one in polls], "s")
    show("  peak memory of the process", [one.peak_mb for one in polls], "MB")


def show_tasks(bench: Bench, rounds: int) -> None:
    """Measure whole tasks, of one day and of seven."""
    bench.task(DAYS[:1])  # makes the class-data archive
    ones, sevens = [], []
    for _ in range(rounds):
        ones.append(bench.task(DAYS[:1]))
        sevens.append(bench.task(DAYS))
    show("whole cold task, one day", [one.seconds for one in ones], "s")
    show("  of which moving the day", [one.work_seconds for one in ones], "s")
    show("  CPU of all its processes", [one.cpu_seconds for one in ones], "s")
    show(f"whole cold task, seven days on {MASTER}", [seven.seconds for seven in sevens], "s")
    show("  peak memory of a Python process", [seven.peak_mb for seven in sevens], "MB")
    show("  CPU, a day", [seven.cpu_seconds / 7 for seven in sevens], "s")
    show("  of which moving the days", [seven.work_seconds for seven in sevens], "s")


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=500_000, help="events of a day")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--big-day", type=int, metavar="EVENTS", help="also poll a day of so many: is memory flat?")
    parser.add_argument("--only", choices=["poll", "task"], help="leave the other out")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()) / "connect-benchmark", help="keeps the made days"
    )
    options = parser.parse_args()
    if shutil.which("curl") is None:
        sys.exit("this benchmark needs curl")
    days = DAYS[:1] if options.only == "poll" else DAYS
    os.environ.update(launch.LOCAL_ENV)  # the allocator settings of a task, for the processes that poll
    with tempfile.TemporaryDirectory() as folder:
        with standin(options.events, days, options.cache) as url:
            bench = Bench(url, Path(folder))
            if options.only != "task":
                show_polls(bench, DAYS[0], options.rounds)
            if options.only != "poll":
                show_tasks(bench, options.rounds)
        if options.big_day:
            with standin(options.big_day, DAYS[:1], options.cache) as url:
                show_polls(Bench(url, Path(folder)), DAYS[0], 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
