"""What needs an interpreter or an Airflow of its own to be seen: what a process loads, and what it loads at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # each starts an interpreter, and most of them load Airflow or Google's libraries

THREADS = """
import sys, threading
from airflow_provider_connect.connection import Connection
from airflow_provider_connect.clients.bigquery.api import BigQueryApi

sys.setswitchinterval(1e-5)
extra = {"project": "pppp", "is_anonymous": True}
failed = []

def work(name):
    try:
        api = BigQueryApi.open(Connection(conn_id="c", extra=extra))
        getattr(api, name)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=work, args=(name,)) for name in ("client", "write_client") * 4]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
sys.exit("; ".join(failed) or 0)
"""


def test_each_call_of_airflow_loads_the_declaration_and_nothing_else_of_ours() -> None:
    code = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules); "
        "from airflow_provider_connect.cli.definition import get_commands; get_commands(); "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    room = "airflow_provider_connect"
    assert {*loaded} - {room} == {f"{room}.cli", f"{room}.cli.definition"}


def test_threads_may_open_it_at_once_in_a_fresh_process() -> None:
    ended = subprocess.run([sys.executable, "-c", THREADS], check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_the_workshop_of_kafka_does_not_know_its_face() -> None:
    code = "import sys, airflow_provider_connect.sinks._kafka.publisher as _; "
    code += "print('airflow_provider_connect.sinks.kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
