"""Prints how long the page's answers take on a real Airflow: ``python tests/benchmarks/page.py``.

Twenty streams, nineteen with a month of days and one with ten years, beside eighty DAGs of others. First is the first
question of a viewer whom this API server has told nothing yet; again is the median of ten more.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import requests

from tests.equipment.airflow.roles import AirflowWithRoles

STREAMS, OTHERS, DAYS, TEN_YEARS = 20, 80, 30, 3650
DAG = """\
import datetime as dt
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow_provider_connect.operators.connect import ConnectOperator
from airflow_provider_connect.sinks.delta import DeltaSink
from airflow_provider_connect.sources.mixpanel import MixpanelSource
from airflow_provider_connect.timetables import daily

for number in range({streams}):
    with DAG(f"stream_{{number}}", schedule=daily(), start_date=dt.datetime(2016, 1, 1, tzinfo=dt.UTC), catchup=False):
        ConnectOperator(task_id="events", source=MixpanelSource(), sink=DeltaSink(path=f"{tables}/{{number}}"))
for number in range({others}):
    with DAG(f"other_{{number}}", schedule=None):
        EmptyOperator(task_id="nothing")
"""


def start(folder: Path) -> AirflowWithRoles:
    """Start an Airflow that has the streams and their past."""
    (folder / "dags").mkdir()
    tables = folder / "tables"
    (folder / "dags" / "streams.py").write_text(DAG.format(streams=STREAMS, others=OTHERS, tables=tables))
    airflow = AirflowWithRoles(folder / "airflow", folder / "dags", roles=("api-server", "dag-processor"))
    airflow.start()
    for number in range(STREAMS):
        airflow.wait_for_dag(f"stream_{number}")
    for number in range(STREAMS):
        days = TEN_YEARS if number == 0 else DAYS
        arguments = [f"stream_{number}", str(days), f"{tables}/{number}"]
        command = [sys.executable, "-m", "tests.equipment.airflow.past_runs", *arguments]
        root = Path(__file__).parents[2]
        subprocess.run(command, check=True, env=airflow.environment(), cwd=root, stdout=subprocess.DEVNULL)
    return airflow


def measure(airflow: AirflowWithRoles, what: str, path: str, role: str) -> None:
    """Print how long an answer takes at first, and again."""
    session = requests.Session()
    session.cookies.set("_token", airflow.token(role))
    took = []
    for _ in range(11):
        began = time.perf_counter()
        answer = session.get(f"{airflow.url}/connect/api/{path}", timeout=120)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
    print(
        f"{what} ({role}): first {took[0]:.0f} ms, again {statistics.median(took[1:]):.0f} ms, "
        f"slowest {max(took[1:]):.0f} ms, {len(answer.content) / 1000:.0f} kB",
        flush=True,
    )


def main() -> None:
    """Start Airflow; measure as an admin, and as a viewer, who reads no Variables."""
    with tempfile.TemporaryDirectory() as name:
        airflow = None
        try:
            airflow = start(Path(name))
            last = time.strftime("%Y-%m-%d")
            for role in ("admin", "viewer"):
                measure(airflow, f"{STREAMS} streams", "streams", role)
                measure(airflow, "a year of days", "streams/stream_0/events", role)
                measure(airflow, "ten years of days", f"streams/stream_0/events?from=2016-11-30&to={last}", role)
        finally:
            if airflow is not None:
                airflow.stop()


if __name__ == "__main__":
    main()
